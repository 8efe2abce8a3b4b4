// The benchmark's programs on the Go SDK: `bench agent` and `bench client SCENARIO COUNT -- AGENT...`.
package main

import (
	"fmt"
	"os"
)

func main() {
	switch os.Args[1] {
	case "client":
		play(os.Args[2:])
	case "agent":
		serve()
	default:
		fmt.Fprintf(os.Stderr, "received the part %q, expected client or agent\n", os.Args[1])
		os.Exit(2)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
