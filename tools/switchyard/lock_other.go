//go:build !unix

package main

// lockFolder does nothing here: two servers must not be given one folder.
func lockFolder(string) (release func() error, err error) {
	return func() error { return nil }, nil
}
