// Command image builds container images of the programs, from a commit. It needs git and Go, and
// neither a registry nor a daemon.
//
//	go run ./image -out ../bin/images                 both programs, for amd64 and arm64
//	go run ./image -arch amd64 -out /tmp timeoutd     one program, for one architecture
//
// For each program there is DIR/PROGRAM, an OCI layout with all architectures to push, and a
// DIR/PROGRAM-ARCH.tar for each architecture to load. The same commit, tags and version of Go make
// the same bytes. See scripts/image.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "bin/images", "directory for the images; existing images are replaced")
	archs := flags.String("arch", "amd64,arm64", "architectures, as Go calls them, with commas between them")
	repo := flags.String("repo", ".", "the repository; its last commit is built, without uncommitted changes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	src, err := clone(*repo, filepath.Join(dir, "source"))
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if err := p.write(src, strings.Split(*archs, ","), *out); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// choose returns the named programs, or all.
func choose(names []string) (chosen []program, err error) {
	if len(names) == 0 {
		return programs, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("program %q, must be echo-heartbeat or timeoutd", name)
		}
		chosen = append(chosen, programs[i])
	}
	return chosen, nil
}
