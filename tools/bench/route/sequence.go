package route

import "time"

// sequence is a request on its way.
type sequence struct {
	request *Request
	booking Booking

	arrived, started, first, ended time.Duration

	hit      int    // tokens that were resident when its prefill began
	computed int    // tokens of the prompt that are in the pool
	held     int    // its first runs that it holds
	own      int    // blocks that it has to itself
	lastPass uint64 // that generates its last token
}

// match is how many leading blocks of the prompt are resident, and in how many runs they
// are. The last token is always computed, so a block that ends with it does not count.
func (c *cache) match(r *Request, blockTokens int) (blocks, runs int) {
	most := (r.InputTokens - 1) / blockTokens
	for place, run := range r.Runs {
		whole := r.tokens(place) / blockTokens
		here := min(whole, c.resident(run), most-blocks)
		if here == 0 {
			return blocks, place
		}
		blocks += here
		if here < whole {
			return blocks, place + 1
		}
	}
	return blocks, len(r.Runs)
}

// start reserves all that the sequence will ever need, less what is resident.
func (s *sequence) start(c *cache, cfg *Config) bool {
	blocks, runs := c.match(s.request, cfg.BlockTokens)
	own := cfg.blocks(s.request) - blocks
	if !c.room(s.request.Runs[:runs], own) {
		return false
	}
	for _, run := range s.request.Runs[:runs] {
		c.hold(run)
	}
	c.reserve(own)
	s.held, s.own = runs, own
	s.hit = blocks * cfg.BlockTokens
	s.computed = s.hit
	return true
}

// compute adds tokens of the prompt to the pool; whole blocks can be shared from now on.
func (s *sequence) compute(c *cache, tokens, blockTokens int) {
	from := s.computed / blockTokens * blockTokens
	s.computed += tokens
	for place := from / RunTokens; place < len(s.request.Runs); place++ {
		done := min(s.computed-place*RunTokens, s.request.tokens(place)) / blockTokens
		if done <= 0 {
			return
		}
		run := s.request.Runs[place]
		if place == s.held {
			c.hold(run)
			s.held++
		}
		s.own -= c.grow(run, done)
	}
}

// end gives everything back.
func (s *sequence) end(c *cache, blockTokens int) {
	// The last generated token is sent and never computed.
	generated := (s.request.InputTokens+s.request.OutputTokens-1)/blockTokens - s.request.InputTokens/blockTokens
	c.free(s.own, generated)
	for place := s.held - 1; place >= 0; place-- {
		c.release(s.request.Runs[place])
	}
}

// waited is the time from arrival to the first token.
func (s *sequence) waited() time.Duration { return s.first - s.arrived }

// pace is the mean time between tokens; 0 for a single one.
func (s *sequence) pace() time.Duration {
	if s.request.OutputTokens == 1 {
		return 0
	}
	return (s.ended - s.first) / time.Duration(s.request.OutputTokens-1)
}
