package route

// Pooled is the reuse that no placement exceeds by much: one cache with the blocks of all
// workers, in which each prompt is computed the moment it arrives.
func Pooled(t *Trace, cfg Config) (reuse float64, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	if err := cfg.fits(t); err != nil {
		return 0, err
	}
	c := newCache(cfg.PoolBlocks*cfg.Workers, t.Runs)
	prompt, hit := 0, 0
	for i := range t.Requests {
		s := sequence{request: &t.Requests[i]}
		s.start(c, &cfg) // alone, it has room
		s.compute(c, s.request.InputTokens-s.hit, cfg.BlockTokens)
		s.end(c, cfg.BlockTokens)
		prompt += s.request.InputTokens
		hit += s.hit
	}
	return float64(hit) / float64(prompt), nil
}
