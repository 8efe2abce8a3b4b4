// The peers made with the Go SDK: one program, whose first argument is the part it plays.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	switch os.Args[1] {
	case "client":
		playAll()
	case "agent":
		serve()
	default:
		fmt.Fprintf(os.Stderr, "received the part %q, expected client or agent\n", os.Args[1])
		os.Exit(2)
	}
}

// as converts what was built by hand, or read, to a type of the SDK: whatever the SDK would lose is lost here.
func as[T any](value any) (T, error) {
	var made T
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	return made, err
}

// must is as for values that fit because they are written in these programs.
func must[T any](value any) T {
	made, err := as[T](value)
	if err != nil {
		panic(err)
	}
	return made
}

type object = map[string]any
type list = []any
