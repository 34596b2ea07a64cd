package main

import "slices"

// shorten leaves out of a list, which differs, parts of half its length, then of a quarter, and so
// on, as long as what remains differs. It is empty if the list does not.
func shorten[T any](list []T, differs func([]T) (bool, error)) ([]T, error) {
	if ok, err := differs(list); err != nil || !ok {
		return nil, err
	}
	for part := (len(list) + 1) / 2; part > 0; part /= 2 {
		for at := 0; at < len(list); {
			rest := slices.Concat(list[:at], list[min(len(list), at+part):])
			ok, err := differs(rest)
			if err != nil {
				return nil, err
			}
			if ok {
				list = rest
			} else {
				at += part
			}
		}
	}
	return list, nil
}
