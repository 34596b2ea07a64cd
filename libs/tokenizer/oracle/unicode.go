package oracle

// unicodeSet is every character by itself, twice, and with others around it.
func unicodeSet() Set {
	const perBlock = 2048
	all := characters()
	return Set{
		Name: "unicode", Blocks: (len(all) + perBlock - 1) / perBlock,
		Texts: func(block int) []string {
			var out []string
			for _, r := range all[block*perBlock : min(len(all), (block+1)*perBlock)] {
				c := string(r)
				out = append(out, c, c+c, "a"+c+"b", " "+c+"1")
			}
			return out
		},
	}
}

// characters are all those of the planes that have some, by this version of Unicode or a later
// one, and a few of the others, which are for private use or for nothing yet.
func characters() (out []rune) {
	for r := rune(0); r <= 0x10ffff; r++ {
		switch {
		case 0xd800 <= r && r < 0xe000:
		case r < 0x33500, 0xe0000 <= r && r < 0xe0200, r%251 == 0:
			out = append(out, r)
		}
	}
	return out
}
