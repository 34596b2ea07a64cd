package bpe

// Texts holds the bytes of each token of a vocabulary.
type Texts struct {
	All  string   // the bytes of all
	Ends []uint32 // token id ends at Ends[id] of All, and starts where id-1 ends
}

// Len is how many ids there are.
func (t Texts) Len() int { return len(t.Ends) }

// At is the text of a token, "" for an id that is none.
func (t Texts) At(id uint32) string {
	if uint64(id) >= uint64(len(t.Ends)) {
		return ""
	}
	start := uint32(0)
	if id > 0 {
		start = t.Ends[id-1]
	}
	return t.All[start:t.Ends[id]]
}
