// Command caddy is Caddy with its standard modules and this one, as xcaddy builds it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/heartwheel-go/heartwheel/keepalive/caddykeepalive"
)

func main() { caddycmd.Main() }
