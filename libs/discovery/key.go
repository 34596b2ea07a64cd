package discovery

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

const (
	rootKey      = "/switchyard/"
	instancesKey = rootKey + "instances/"
	configKey    = rootKey + "config/"
)

// RoleName is a role as it appears in keys and resolver targets.
func RoleName(role instancev1.Role) string {
	switch role {
	case instancev1.Role_ROLE_FRONTEND:
		return "frontend"
	case instancev1.Role_ROLE_PROCESSOR:
		return "processor"
	case instancev1.Role_ROLE_DECODE_WORKER:
		return "decodeworker"
	case instancev1.Role_ROLE_PREFILL_WORKER:
		return "prefillworker"
	case instancev1.Role_ROLE_PLANNER:
		return "planner"
	default:
		return ""
	}
}

// ParseRole is the reverse of RoleName.
func ParseRole(name string) (instancev1.Role, error) {
	for number := range instancev1.Role_name {
		if role := instancev1.Role(number); name != "" && RoleName(role) == name {
			return role, nil
		}
	}
	return 0, fmt.Errorf("role %q: want frontend, processor, decodeworker, prefillworker or planner", name)
}

// InstanceKey is where an instance is registered.
func InstanceKey(role instancev1.Role, id string) string {
	return instancesKey + RoleName(role) + "/" + id
}

// ConfigKey is where live configuration of a model is kept, such as the name disagg.
func ConfigKey(model, name string) string { return configKey + model + "/" + name }

// NewIncarnation names a life that began at now. Later lives sort after earlier ones.
func NewIncarnation(now time.Time) string {
	var unique [4]byte
	rand.Read(unique[:]) // never fails, by its contract
	return fmt.Sprintf("%016x-%x", now.UnixNano(), unique)
}

func checkInstance(in *instancev1.Instance) error {
	switch {
	case in.GetId() == "" || strings.Contains(in.GetId(), "/"):
		return fmt.Errorf("instance id %q: want a name without slashes", in.GetId())
	case in.GetIncarnation() == "":
		return fmt.Errorf("instance %s: incarnation: want one, see NewIncarnation", in.GetId())
	case RoleName(in.GetRole()) == "":
		return fmt.Errorf("instance %s: role: %v, want one of the five", in.GetId(), in.GetRole())
	}
	if _, _, err := net.SplitHostPort(in.GetAddress()); err != nil {
		return fmt.Errorf("instance %s: address %q: want host:port", in.GetId(), in.GetAddress())
	}
	return nil
}
