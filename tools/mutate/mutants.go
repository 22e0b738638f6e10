package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is a change. All mutants of a package are compiled into it at once, and a variable of the
// environment switches one of them on.
type mutant struct {
	id           int // from 1
	file         string
	line, column int
	old, new     string
	fails        bool // to compile
}

// edit puts texts around a piece of a file, for some mutants. Edits nest.
type edit struct {
	from, to      token.Pos
	before, after string
	operator      token.Pos // a comma takes the place of the operator here, if there is one
	length        int
}

// Operators in the place of another. Bounds move by one, and the others become their opposite.
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
	// see functions.go.txt
	helpers = map[token.Token]string{
		token.LSS: "mutantLess", token.LEQ: "mutantLessEqual", token.GTR: "mutantMore", token.GEQ: "mutantMoreEqual",
		token.ADD: "mutantAdd", token.SUB: "mutantSub", token.MUL: "mutantMul", token.QUO: "mutantQuo", token.REM: "mutantRem",
		token.SHL: "mutantShl", token.SHR: "mutantShr", token.AND: "mutantAnd", token.OR: "mutantOr", token.XOR: "mutantXor",
		token.AND_NOT: "mutantAndNot",
	}
)

// finder collects the mutants of a package, file by file.
type finder struct {
	pkg    *packages.Package
	file   *ast.File
	text   []byte
	failed map[int]bool      // lines of this file, not compilable with their mutants
	plain  map[ast.Expr]bool // conditions: to invert them would be the same as one of their own mutants
	edits  []edit
	found  []mutant
	placed int // so many of them have their edits
}

// mutate returns a file with all its mutants.
func (f *finder) mutate(file *ast.File, text []byte, failed map[int]bool) string {
	f.file, f.text, f.failed, f.plain, f.edits = file, text, failed, map[ast.Expr]bool{}, nil
	for _, d := range file.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			f.returns(function.Type, function.Body)
			ast.Inspect(function.Body, f.visit)
		}
	}
	before, after, commas := map[int]string{}, map[int]string{}, map[int]int{}
	for _, e := range f.edits { // an outer one comes before those in it
		before[f.offset(e.from)] += e.before
		after[f.offset(e.to)] = e.after + after[f.offset(e.to)]
		if e.length > 0 {
			commas[f.offset(e.operator)] = e.length
		}
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteString(after[i] + before[i])
		if n := commas[i]; n > 0 {
			b.WriteByte(',')
			i += n - 1
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.loop(n.Cond)
			ast.Inspect(n.Cond, f.visit)
		}
		if n.Init != nil {
			ast.Inspect(n.Init, f.visit)
		}
		ast.Inspect(n.Body, f.visit)
		return false // a different step would never end
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				if n.Tag == nil {
					f.condition(e)
				}
			}
		}
	case *ast.FuncLit:
		f.returns(n.Type, n.Body)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			f.result(e)
		}
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType, *ast.Ident, *ast.SelectorExpr:
		if e, ok := n.(ast.Expr); ok && f.isConstant(e) {
			f.constant(e)
			return false
		}
		_, isArray := n.(*ast.ArrayType)
		return !isArray
	case *ast.KeyValueExpr:
		ast.Inspect(n.Value, f.visit)
		return false
	case ast.Expr:
		if f.isConstant(n) {
			f.constant(n)
			return false
		}
		f.expression(n)
	}
	return true
}

// returns ends a function after its endless loop, since a mutant may break the loop.
func (f *finder) returns(t *ast.FuncType, body *ast.BlockStmt) {
	if t.Results == nil || len(body.List) == 0 {
		return
	}
	if loop, ok := body.List[len(body.List)-1].(*ast.ForStmt); ok && loop.Cond == nil {
		f.edits = append(f.edits, edit{from: body.Rbrace, to: body.Rbrace, before: `; panic("a mutant left an endless loop"); `})
	}
}

func (f *finder) expression(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		switch {
		case n.Op == token.SUB:
			id := f.mutant(n.OpPos, "-", "")
			f.wrap(n, fmt.Sprintf("mutantNegative(%d, ", id), ")")
		case n.Op == token.NOT && !f.plain[n]:
			f.invert(n, f.mutant(n.OpPos, "!", ""))
		}
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		if _, builtin := f.pkg.TypesInfo.Uses[name].(*types.Builtin); ok && builtin && (name.Name == "min" || name.Name == "max") {
			other := map[string]string{"min": "max", "max": "min"}[name.Name]
			id := f.mutant(n.Pos(), name.Name, other)
			f.add(edit{from: n.Lparen + 1, to: n.Lparen + 1, before: fmt.Sprintf("%d, ", id)})
			f.add(edit{from: name.Pos(), to: name.Pos(), before: "mutant_"})
		}
	}
}

// condition makes a condition true, or false.
func (f *finder) condition(e ast.Expr) {
	if f.isConstant(e) {
		return
	}
	f.plain[ast.Unparen(e)] = true
	id := f.mutant(e.Pos(), f.at(e), "true")
	f.mutant(e.Pos(), f.at(e), "false")
	f.wrap(e, fmt.Sprintf("mutantForce(%d, ", id), ")")
}

// loop makes the condition of a loop false. Always true would never end.
func (f *finder) loop(e ast.Expr) {
	f.plain[ast.Unparen(e)] = true
	id := f.mutant(e.Pos(), f.at(e), "false")
	f.wrap(e, fmt.Sprintf("(!mutantOn(%d) && (", id), "))")
}

func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR: // without one of its sides
		on, op := "mutantOn", "||"
		if n.Op == token.LOR {
			on, op = "!mutantOn", "&&"
		}
		for _, side := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
			f.plain[ast.Unparen(side[0])] = true
			f.wrap(side[0], fmt.Sprintf("(%s(%d) %s (", on, f.mutant(n.Pos(), f.at(n), f.at(side[1])), op), "))")
		}
	case token.EQL, token.NEQ:
		if !f.plain[n] {
			f.invert(n, f.mutant(n.OpPos, n.Op.String(), opposites[n.Op].String()))
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		id := f.mutant(n.OpPos, n.Op.String(), bounds[n.Op].String())
		if !f.plain[n] {
			f.mutant(n.OpPos, n.Op.String(), opposites[n.Op].String())
			f.call(n, fmt.Sprintf("mutantEither(%d, %s(%d, ", id+1, helpers[n.Op], id), "))")
			return
		}
		f.call(n, fmt.Sprintf("%s(%d, ", helpers[n.Op], id), ")")
	default:
		if to, ok := arithmetic[n.Op]; ok && !f.isString(n) {
			id := f.mutant(n.OpPos, n.Op.String(), to.String())
			of := ""
			if n.Op == token.SHL || n.Op == token.SHR {
				of = f.typeOf(n)
			}
			f.call(n, fmt.Sprintf("%s%s(%d, ", helpers[n.Op], of, id), ")")
		}
	}
}

// statements leaves out statements, and changes operators.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || f.isBlank(s.Lhs) {
				continue
			}
			f.leaveOut(s)
			if to, ok := arithmetic[s.Tok]; ok && !f.isString(s.Lhs[0]) {
				f.instead(s, s.TokPos, s.Tok, to, f.at(s.Lhs[0])+" "+to.String()+" "+f.at(s.Rhs[0]))
			}
		case *ast.IncDecStmt:
			to := arithmetic[s.Tok]
			f.leaveOut(s)
			f.instead(s, s.TokPos, s.Tok, to, f.at(s.X)+to.String())
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || f.at(call.Fun) != "panic" {
				f.leaveOut(s)
			}
		case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			f.leaveOut(s)
		case *ast.ReturnStmt:
			if s.Results == nil {
				f.leaveOut(s)
			}
		case *ast.BranchStmt:
			switch s.Tok {
			case token.CONTINUE:
				f.instead(s, s.Pos(), s.Tok, token.BREAK, strings.Replace(f.at(s), "continue", "break", 1))
			case token.BREAK:
				f.instead(s, s.Pos(), s.Tok, token.CONTINUE, strings.Replace(f.at(s), "break", "continue", 1))
			}
		}
	}
}

func (f *finder) leaveOut(s ast.Stmt) {
	f.wrap(s, fmt.Sprintf("if !mutantOn(%d) { ", f.mutant(s.Pos(), f.at(s), "")), " }")
}

func (f *finder) instead(s ast.Stmt, at token.Pos, old, by token.Token, text string) {
	f.wrap(s, fmt.Sprintf("if mutantOn(%d) { %s } else { ", f.mutant(at, old.String(), by.String()), oneLine(text)), " }")
}

// result has a function return the zero value.
func (f *finder) result(e ast.Expr) {
	of := f.pkg.TypesInfo.Types[e]
	if of.Type == nil || of.Value != nil || of.IsNil() {
		return
	}
	switch t := of.Type.Underlying().(type) {
	case *types.Tuple:
		return
	case *types.Basic:
		if t.Info()&types.IsBoolean != 0 || t.Kind() == types.Invalid {
			return
		}
	}
	switch ast.Unparen(e).(type) {
	case *ast.BinaryExpr, *ast.FuncLit, *ast.CompositeLit:
		return
	}
	f.wrap(e, fmt.Sprintf("mutantZero(%d, ", f.mutant(e.Pos(), f.at(e), "the zero value")), ")")
}

// constant adds one to a number, or inverts true and false. A constant with a name keeps its value.
func (f *finder) constant(e ast.Expr) {
	of := f.pkg.TypesInfo.Types[e]
	basic, ok := of.Type.Underlying().(*types.Basic)
	if !ok {
		return
	}
	switch {
	case basic.Info()&types.IsBoolean != 0:
		if f.at(e) == "true" || f.at(e) == "false" {
			f.invert(e, f.mutant(e.Pos(), f.at(e), strconv.FormatBool(!constant.BoolVal(of.Value))))
		}
	case basic.Info()&types.IsNumeric != 0 && basic.Info()&types.IsUntyped == 0:
		inner := ast.Unparen(e)
		if unary, ok := inner.(*ast.UnaryExpr); ok && unary.Op == token.SUB {
			inner = unary.X
		}
		literal, ok := inner.(*ast.BasicLit)
		if t := f.typeOf(e); ok && literal.Kind == token.INT && t != "" {
			f.wrap(e, fmt.Sprintf("mutantNumber%s(%d, ", t, f.mutant(e.Pos(), f.at(e), f.at(e)+"+1")), ")")
		}
	}
}

func (f *finder) invert(e ast.Expr, id int) {
	f.wrap(e, fmt.Sprintf("mutantEither(%d, ", id), ")")
}

// mutant adds a mutant. Its number must come with the next edit: without this edit, the mutant is not compiled.
func (f *finder) mutant(at token.Pos, old, by string) int {
	place := f.pkg.Fset.Position(at)
	id := len(f.found) + 1
	f.found = append(f.found, mutant{id: id, file: place.Filename, line: place.Line, column: place.Column, old: oneLine(old), new: oneLine(by)})
	return id
}

func (f *finder) wrap(n ast.Node, before, after string) {
	f.add(edit{from: n.Pos(), to: n.End(), before: before, after: after})
}

func (f *finder) call(n *ast.BinaryExpr, before, after string) {
	f.add(edit{from: n.Pos(), to: n.End(), before: before, after: after, operator: n.OpPos, length: len(n.Op.String())})
}

func (f *finder) add(e edit) {
	failed := f.failed[f.pkg.Fset.Position(e.from).Line] || f.failed[f.pkg.Fset.Position(e.to).Line]
	if !failed {
		f.edits = append(f.edits, e)
	}
	for ; f.placed < len(f.found); f.placed++ {
		f.found[f.placed].fails = failed
	}
}

func (f *finder) at(n ast.Node) string { return string(f.text[f.offset(n.Pos()):f.offset(n.End())]) }

func (f *finder) offset(at token.Pos) int { return f.pkg.Fset.Position(at).Offset }

func (f *finder) isConstant(e ast.Expr) bool { return f.pkg.TypesInfo.Types[e].Value != nil }

func (f *finder) isString(e ast.Expr) bool {
	basic, ok := f.pkg.TypesInfo.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}

func (f *finder) isBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool { return f.at(e) != "_" })
}

// typeOf is the type of an expression as a type argument, or "" if this file has no name for it.
func (f *finder) typeOf(e ast.Expr) string {
	known := true
	name := types.TypeString(f.pkg.TypesInfo.TypeOf(e), func(p *types.Package) string {
		if p == f.pkg.Types {
			return ""
		}
		for _, spec := range f.file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); path == p.Path() {
				if spec.Name != nil {
					return spec.Name.Name
				}
				return p.Name()
			}
		}
		known = false
		return ""
	})
	if !known {
		return ""
	}
	return "[" + name + "]"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
