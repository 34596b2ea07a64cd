package normalize

// Hangul syllables are composed by arithmetic (Unicode Standard, section 3.12).
const (
	syllableFirst = 0xAC00
	syllableLast  = 0xD7A3
	leadFirst     = 0x1100
	leadLast      = 0x1112
	vowelFirst    = 0x1161
	vowelLast     = 0x1175
	trailBase     = 0x11A7
	trailFirst    = trailBase + 1
	trailLast     = 0x11C2
	vowels        = 21
	trails        = 28
)

func isSyllable(r rune) bool { return syllableFirst <= r && r <= syllableLast }

// decomposeHangul returns the parts of a syllable; the last is 0 if it has two.
func decomposeHangul(syllable rune) (lead, vowel, trail rune) {
	i := syllable - syllableFirst
	lead = leadFirst + i/(vowels*trails)
	vowel = vowelFirst + i%(vowels*trails)/trails
	if t := i % trails; t > 0 {
		trail = trailBase + t
	}
	return lead, vowel, trail
}

// composeHangul returns the syllable of two parts; 0: they are no such parts.
func composeHangul(a, b rune) rune {
	if leadFirst <= a && a <= leadLast && vowelFirst <= b && b <= vowelLast {
		return syllableFirst + ((a-leadFirst)*vowels+b-vowelFirst)*trails
	}
	if trailFirst <= b && b <= trailLast && isSyllable(a) && (a-syllableFirst)%trails == 0 {
		return a + b - trailBase
	}
	return 0
}
