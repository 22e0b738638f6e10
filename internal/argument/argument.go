// Package argument makes the ErrArgument of each package. errors.Is finds any of them in any other, since most packages pass
// on what the ones below refuse.
package argument

// Error is the ErrArgument of a package, by its name.
type Error string

func (e Error) Error() string { return string(e) + ": invalid argument" }

// Is reports whether target is the ErrArgument of any package.
func (e Error) Is(target error) bool {
	_, ok := target.(Error)
	return ok
}
