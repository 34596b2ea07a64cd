//go:build !unix

package modelstore

import "context"

// lock does nothing where there is no flock: processes that fetch at the same
// time then fetch twice, which the rename makes safe.
func lock(context.Context, string) (unlock func(), exclusive bool, err error) {
	return func() {}, false, nil
}
