// Command proxy is a yardstick for tools/bench/edge: Go's own reverse proxy, which does nothing but
// pass the bytes of a stream on. It prints its URL.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	flag.Parse()
	if err := serve(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// serve passes requests on to the server at target.
func serve(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return fmt.Errorf("the argument is %q, want the URL of a server", target)
	}
	p := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		FlushInterval: -1, // each piece at once
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	return http.Serve(l, p)
}
