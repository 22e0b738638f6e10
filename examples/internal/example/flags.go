package example

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse reads flags and nothing but flags. An error is reported once, by the caller; with flag.ErrHelp
// the flags were written to help.
func Parse(flags *flag.FlagSet, args []string, help io.Writer) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(help)
		flags.PrintDefaults()
	}
	if err != nil {
		return err
	}
	return stray(flags.Args())
}

func stray(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: there are only flags", rest[0])
	}
	return nil
}
