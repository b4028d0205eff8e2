package wire

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The tables of PROTOCOL.md are made from frame.go and frame_*.go, their comments included, so that page and code cannot part. This
// test compares them; with -update it writes them.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("frame_*.go")
	if err != nil {
		t.Fatal(err)
	}
	// In the order in which someone learns them; a file that is not named here comes last.
	order := []string{"frame.go", "frame_lease.go", "frame_result.go", "frame_task.go", "frame_queue.go", "frame_dead.go", "frame_cluster.go"}
	for _, name := range names {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	d := &description{fields: map[string][]described{}}
	for _, name := range order {
		src, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		d.describe(src)
	}
	for marker, text := range map[string]string{"types": d.types(t), "bodies": d.bodies(t), "codes": codeTable()} {
		begin, end := "<!-- begin "+marker+" -->\n", "<!-- end "+marker+" -->"
		i, j := bytes.Index(page, []byte(begin)), bytes.Index(page, []byte(end))
		if i < 0 || j < i {
			t.Fatalf("PROTOCOL.md lacks %q … %q", begin, end)
		}
		i += len(begin)
		if *update {
			page = []byte(string(page[:i]) + text + string(page[j:]))
			continue
		}
		if string(page[i:j]) != text {
			t.Errorf("the %s in PROTOCOL.md are not those of frame.go: go test ./wire -run TestProtocolPage -update", marker)
		}
	}
	if *update {
		if err := os.WriteFile("PROTOCOL.md", page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// description is what frame.go's syntax says: the constants and structs in their order, with comments.
type description struct {
	consts  []described            // of type Type
	structs []described            // with a comment
	fields  map[string][]described // by struct
}

type described struct{ name, text string }

func (d *description) describe(src *ast.File) {
	for _, decl := range src.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				if id, ok := s.Type.(*ast.Ident); ok && id.Name == "Type" {
					d.consts = append(d.consts, described{s.Names[0].Name + "=" + s.Values[0].(*ast.BasicLit).Value, line(s.Comment)})
				}
			case *ast.TypeSpec:
				st, ok := s.Type.(*ast.StructType)
				if !ok {
					continue
				}
				d.structs = append(d.structs, described{s.Name.Name, line(g.Doc)})
				for _, f := range st.Fields.List {
					d.fields[s.Name.Name] = append(d.fields[s.Name.Name], described{f.Names[0].Name, line(f.Comment)})
				}
			}
		}
	}
}

func line(c *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.TrimSpace(c.Text()), "\n", " ")
}

// snake turns a Go name into the name that fault messages use.
func snake(s string) string {
	s = strings.Replace(s, "Millis", "MS", 1)
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			before := unicode.IsLower(rune(s[i-1]))
			after := i+1 < len(s) && unicode.IsLower(rune(s[i+1]))
			unit := strings.HasPrefix(s[i:], "MS")
			if before || after || unit {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (d *description) types(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| type | name | sender, answer | body |\n| --- | --- | --- | --- |\n")
	for _, c := range d.consts {
		name, number, _ := strings.Cut(c.name, "=")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		body, ok := bodies[Type(n)]
		if !ok {
			t.Fatalf("%s has no body", name)
		}
		if c.text == "" && n%2 == 1 {
			c.text = "S" // an answer
		}
		if !strings.HasPrefix(c.text, "C") && n%2 == 0 || !strings.HasPrefix(c.text, "S") && n%2 == 1 {
			t.Errorf("%s: the comment %q does not say who sends it (C even, S odd)", name, c.text)
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | [%s](#%s) |\n", n, snake(strings.TrimPrefix(name, "Type")), c.text, body.Name(), strings.ToLower(body.Name()))
	}
	return b.String()
}

func (d *description) bodies(t *testing.T) string {
	named := map[string]reflect.Type{}
	for _, r := range bodies {
		collect(named, r)
	}
	var b strings.Builder
	for _, s := range d.structs {
		r, ok := named[s.name]
		if !ok {
			continue // of the codec, not of frames
		}
		delete(named, s.name)
		if s.text == "" {
			t.Errorf("%s has no comment", s.name)
		}
		fmt.Fprintf(&b, "#### %s\n\n%s\n\n", s.name, s.text)
		if r.NumField() == 0 || r.Field(0).Tag.Get("cbor") == ",toarray" { // whose comment says what is in it
			continue
		}
		b.WriteString("| key | field | CBOR | |\n| --- | --- | --- | --- |\n")
		for i := range r.NumField() {
			f := r.Field(i)
			tag := strings.Split(f.Tag.Get("cbor"), ",")
			kind := cborKind(f.Type)
			if len(tag) > 2 && tag[2] == "omitempty" {
				kind = "optional " + kind
				if f.Type.Kind() == reflect.Bool {
					kind = "optional, true"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", tag[0], snake(f.Name), kind, d.fields[s.name][i].text)
		}
		b.WriteString("\n")
	}
	for name := range named {
		t.Errorf("%s is in a frame and not in frame.go", name)
	}
	return b.String()
}

// collect finds the structs that r is made of.
func collect(into map[string]reflect.Type, r reflect.Type) {
	switch r.Kind() {
	case reflect.Pointer, reflect.Slice:
		collect(into, r.Elem())
	case reflect.Struct:
		if r.Name() == "" {
			return
		}
		into[r.Name()] = r
		for i := range r.NumField() {
			collect(into, r.Field(i).Type)
		}
	}
}

func cborKind(r reflect.Type) string {
	switch r.Kind() {
	case reflect.Pointer:
		return cborKind(r.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("int%d", r.Bits())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("uint%d", r.Bits())
	case reflect.String:
		return "text"
	case reflect.Map:
		return "map of text to int64"
	case reflect.Slice:
		if r.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "array of " + cborKind(r.Elem())
	}
	return fmt.Sprintf("[%s](#%s)", r.Name(), strings.ToLower(r.Name()))
}

func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | outcome | retry | HTTP |\n| --- | --- | --- | --- |\n")
	for _, c := range []Code{CodeInvalidArgument, CodeUnauthenticated, CodePermissionDenied, CodeNotFound, CodeAlreadyExists, CodeLeaseLost,
		CodeCancelled, CodeTooLarge, CodeQueueFull, CodeRateLimited, CodeNotLeader, CodeNoLeader, CodeOverloaded, CodeFailedPrecondition,
		CodeSessionExpired, CodeNoSpace, CodeTimeout, CodeUnsupportedVersion, CodeInternal} {
		outcome, retry := "refused", "no"
		if c.Unknown() {
			outcome = "unknown"
		}
		if c.Retry() {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d |\n", c, outcome, retry, c.HTTP())
	}
	return b.String()
}
