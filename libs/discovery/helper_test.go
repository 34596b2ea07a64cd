package discovery

import (
	"fmt"

	"google.golang.org/grpc/resolver"
)

type policy struct {
	Policy    string `json:"policy"`
	Threshold int    `json:"threshold"`
}

func (p *policy) Validate() error {
	switch p.Policy {
	case "never", "always", "threshold":
		return nil
	default:
		return fmt.Errorf("policy %q: want never, always or threshold", p.Policy)
	}
}

func builders(c *Client) []resolver.Builder { return []resolver.Builder{c.Resolver()} }
