package tokenizer

// lossy turns bytes into valid UTF-8. Unless they are final, it leaves an unfinished
// character at their end as rest.
func lossy(b []byte, final bool) (text string, rest []byte) {
	out := make([]byte, 0, len(b)+2)
	for len(b) > 0 {
		n, complete := character(b)
		switch {
		case complete:
			out = append(out, b[:n]...)
		case n == len(b) && mayContinue(b) && !final:
			return asString(out), b
		default:
			out = append(out, "\uFFFD"...)
		}
		b = b[n:]
	}
	return asString(out), nil
}

// character measures the character at the start of b, or, if there is none, the
// longest run that could have begun one, at least one byte.
func character(b []byte) (n int, complete bool) {
	want, low, high := leads(b[0])
	if want == 1 {
		return 1, b[0] < 0x80
	}
	for n = 1; n < want; n++ {
		if n == len(b) || b[n] < low || b[n] > high {
			return n, false
		}
		low, high = 0x80, 0xbf
	}
	return n, true
}

// mayContinue reports whether b, an incomplete run as measured by character, could
// become one character with more bytes.
func mayContinue(b []byte) bool {
	want, _, _ := leads(b[0])
	return len(b) < want
}

// leads returns how many bytes a character has that starts with b, and the range of
// its second byte (table 3-7 of the Unicode standard); 1 also for a byte that starts none.
func leads(b byte) (bytes int, low, high byte) {
	switch {
	case b >= 0xc2 && b <= 0xdf:
		return 2, 0x80, 0xbf
	case b == 0xe0:
		return 3, 0xa0, 0xbf
	case b == 0xed:
		return 3, 0x80, 0x9f
	case b >= 0xe1 && b <= 0xef:
		return 3, 0x80, 0xbf
	case b == 0xf0:
		return 4, 0x90, 0xbf
	case b == 0xf4:
		return 4, 0x80, 0x8f
	case b >= 0xf1 && b <= 0xf3:
		return 4, 0x80, 0xbf
	}
	return 1, 0, 0
}
