package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

// mutant is a change of a file: the text from one offset to another becomes a different one.
type mutant struct {
	file     string // absolute
	function place  // where its function begins
	place    place
	from, to int // offsets
	old, new string
}

type place struct{ line, column int }

func (p place) before(other place) bool {
	return p.line < other.line || p.line == other.line && p.column < other.column
}

// apply returns the file with the change.
func (m mutant) apply(text []byte) string {
	return string(text[:m.from]) + m.new + string(text[m.to:])
}

// Operators that take the place of another. Bounds move by one, and the others become their opposite.
var (
	bounds = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	opposites = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL,
		token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS,
	}
	arithmetic = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND,
		token.AND_NOT:    token.AND,
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN,
		token.QUO_ASSIGN: token.MUL_ASSIGN, token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN,
		token.AND_ASSIGN: token.OR_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN, token.AND_NOT_ASSIGN: token.AND_ASSIGN,
		token.INC: token.DEC, token.DEC: token.INC,
	}
	words = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}
)

// finder collects the mutants of a file.
type finder struct {
	name     string
	text     []byte
	set      *token.FileSet
	function place
	found    []mutant
}

// mutants returns all mutants of a file, in the order of their place. Some may not compile.
func mutants(name string, text []byte) ([]mutant, error) {
	f := &finder{name: name, text: text, set: token.NewFileSet()}
	parsed, err := parser.ParseFile(f.set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			_, f.function = f.place(function.Body.Pos())
			ast.Inspect(function.Body, f.visit)
		}
	}
	slices.SortStableFunc(f.found, func(a, b mutant) int { return a.from - b.from })
	return f.found, nil
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond, true, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond, false, true) // always true would never end, and so would a different step
			ast.Inspect(n.Cond, f.visit)
		}
		if n.Init != nil {
			ast.Inspect(n.Init, f.visit)
		}
		ast.Inspect(n.Body, f.visit)
		return false
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				if n.Tag == nil {
					f.condition(e, true, true)
				}
			}
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			f.replace(n.OpPos, n.X.Pos(), "")
		}
	case *ast.AssignStmt:
		f.operator(n.TokPos, n.Tok, arithmetic)
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok, arithmetic)
	case *ast.BranchStmt:
		f.branch(n)
	case *ast.Ident:
		if to, ok := words[n.Name]; ok {
			f.replace(n.Pos(), n.End(), to)
		}
	case *ast.BasicLit:
		f.literal(n)
	case *ast.SelectorExpr:
		ast.Inspect(n.X, f.visit)
		return false // a field may have any name
	case *ast.KeyValueExpr:
		ast.Inspect(n.Value, f.visit)
		return false
	}
	return true
}

// condition makes a condition true, or false.
func (f *finder) condition(e ast.Expr, yes, no bool) {
	text := f.at(e.Pos(), e.End())
	if yes {
		f.replace(e.Pos(), e.End(), "(("+text+") || true)")
	}
	if no {
		f.replace(e.Pos(), e.End(), "(("+text+") && false)")
	}
}

func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR: // without one of its sides
		f.replace(n.Pos(), n.End(), f.at(n.X.Pos(), n.X.End()))
		f.replace(n.Pos(), n.End(), f.at(n.Y.Pos(), n.Y.End()))
	default:
		f.operator(n.OpPos, n.Op, bounds)
		f.operator(n.OpPos, n.Op, opposites)
		f.operator(n.OpPos, n.Op, arithmetic)
	}
}

func (f *finder) operator(at token.Pos, op token.Token, by map[token.Token]token.Token) {
	if to, ok := by[op]; ok {
		f.replace(at, at+token.Pos(len(op.String())), to.String())
	}
}

// statements leaves out each statement that nothing in its block depends on for being compiled.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.IncDecStmt, *ast.SendStmt:
		case *ast.ReturnStmt:
			if s.Results != nil {
				continue
			}
		default:
			continue
		}
		f.replace(s.Pos(), s.End(), "if false { "+f.at(s.Pos(), s.End())+" }")
	}
}

func (f *finder) branch(n *ast.BranchStmt) {
	switch {
	case n.Tok == token.CONTINUE:
		f.replace(n.Pos(), n.Pos()+token.Pos(len("continue")), "break")
	case n.Tok == token.BREAK:
		f.replace(n.Pos(), n.Pos()+token.Pos(len("break")), "continue")
	}
}

func (f *finder) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
		f.replace(n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	}
}

func (f *finder) at(from, to token.Pos) string {
	begin, _ := f.place(from)
	end, _ := f.place(to)
	return string(f.text[begin:end])
}

func (f *finder) place(at token.Pos) (offset int, p place) {
	position := f.set.Position(at)
	return position.Offset, place{position.Line, position.Column}
}

func (f *finder) replace(from, to token.Pos, with string) {
	begin, at := f.place(from)
	end, _ := f.place(to)
	f.found = append(f.found, mutant{f.name, f.function, at, begin, end, f.at(from, to), with})
}
