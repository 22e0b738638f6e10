// Package example reads flags of examples that are more than one file to copy.
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
	switch {
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	return nil
}
