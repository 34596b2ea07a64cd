package frontend

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsWhatTheBuildTells(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{revision}}, "v1.2.3"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision}}, "abc"},
		{debug.BuildInfo{Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}}, "abc+changed"},
		{debug.BuildInfo{}, "unknown"},
	} {
		if got := versionOf(&c.info); got != c.want {
			t.Errorf("%v: %q, want %q", c.info, got, c.want)
		}
	}
}
