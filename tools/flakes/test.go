package main

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// test is a test, a fuzz test with its seeds, or an example.
type test struct {
	gotest.Package
	name string
	tags string // of its build
}

func (t test) String() string { return t.Name + " " + t.name }

// extras are the build tags of test files, in the order of trial. The empty one is for most files.
var extras = []string{"", "interop", "browser", "conformance"}

// elsewhere is in place of tags for files that do not build on this machine.
const elsewhere = "?"

// tagsOf returns the tags that a file needs, or elsewhere.
func tagsOf(file *ast.File, name string) string {
	fits := func(extra string) bool {
		for _, group := range file.Comments {
			for _, c := range group.List {
				if c.Pos() > file.Package || !constraint.IsGoBuild(c.Text) {
					continue
				}
				expr, err := constraint.Parse(c.Text)
				if err != nil || !expr.Eval(func(tag string) bool { return tag == extra || isHere(tag) }) {
					return false
				}
			}
		}
		return true
	}
	if i := slices.IndexFunc(extras, fits); i >= 0 && namedForHere(name) {
		return extras[i]
	}
	return elsewhere
}

func isHere(tag string) bool {
	return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || tag == "cgo" || tag == "race" || strings.HasPrefix(tag, "go1.")
}

// namedForHere reports whether the end of a file's name, such as _windows_test.go, allows this machine.
func namedForHere(name string) bool {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(name), "_test.go"), "_")
	switch last := parts[len(parts)-1]; last {
	case "darwin", "freebsd", "netbsd", "openbsd", "plan9", "windows", "linux":
		return len(parts) == 1 || last == runtime.GOOS
	default:
		return true
	}
}

// declaration is a top-level name of a package's test files, or a group of them.
type declaration struct {
	names       []string
	first, last int // lines
	file        string
	tags        string
	isTest      bool
	uses        map[string]bool // identifiers
}

// declarations parses the test files in a folder.
func declarations(dir string) (all []declaration, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		tags := tagsOf(file, name)
		for _, d := range file.Decls {
			one := declaration{file: name, tags: tags, first: set.Position(d.Pos()).Line, last: set.Position(d.End()).Line, uses: map[string]bool{}}
			one.describe(d)
			all = append(all, one)
		}
	}
	return all, nil
}

// describe sets the names of a declaration, and what it uses.
func (d *declaration) describe(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if decl.Recv != nil { // a test that uses the type may use the method
			d.names = []string{receiver(decl.Recv.List[0].Type)}
			break
		}
		d.names = []string{name}
		d.isTest = isTest(name, decl)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				d.names = append(d.names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					d.names = append(d.names, id.Name)
				}
			}
		}
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			d.uses[id.Name] = true
		}
		return true
	})
}

// receiver returns the name of a method's type.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return ""
}

// isTest reports whether the go command takes a function for a test, a fuzz test or an example.
func isTest(name string, decl *ast.FuncDecl) bool {
	for prefix, params := range map[string]int{"Test": 1, "Fuzz": 1, "Example": 0} {
		rest, ok := strings.CutPrefix(name, prefix)
		first, _ := utf8.DecodeRuneInString(rest)
		if ok && !unicode.IsLower(first) {
			return name != "TestMain" && decl.Type.Params.NumFields() == params
		}
	}
	return false
}
