package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// What the library says goes over as many lines as it has found faults, and names addresses that nobody knows. It is said anew: on one line,
// of at most maxSaid bytes, with the place as a JSON pointer.

// unusable says why a schema cannot be used.
func unusable(doc any, err error) error {
	return fmt.Errorf("the schema cannot be used: %s", line(why(doc, err), maxSaid))
}

// notJSON says where a text stops being JSON.
func notJSON(text []byte, err error) string {
	var at *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.As(err, &at):
		before := string(text[:min(max(int(at.Offset)-1, 0), len(text))])
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		return fmt.Sprintf("%d:%d: %s", strings.Count(before, "\n")+1, column, line(at.Error(), maxSaid))
	}
	return line(err.Error(), maxSaid)
}

func why(doc any, err error) string {
	var (
		invalid   *jsonschema.SchemaValidationError
		failed    *jsonschema.ValidationError
		regex     *jsonschema.InvalidRegexError
		load      *jsonschema.LoadURLError
		parse     *jsonschema.ParseURLError
		anchor    *jsonschema.AnchorNotFoundError
		pointer   *jsonschema.JSONPointerNotFoundError
		escaped   *jsonschema.InvalidJsonPointerError
		language  *jsonschema.UnsupportedDraftError
		meta      *jsonschema.InvalidMetaSchemaURLError
		cycle     *jsonschema.MetaSchemaCycleError
		mismatch  *jsonschema.MetaSchemaMismatchError
		id        *jsonschema.ParseIDError
		anchorID  *jsonschema.ParseAnchorError
		twice     *jsonschema.DuplicateIDError
		twiceName *jsonschema.DuplicateAnchorError
	)
	refs := []string{"$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id", "id"}
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &failed):
		var said []string
		say(failed, strings.TrimSuffix(place(invalid.URL), "/"), &said)
		return strings.Join(said, "; ")
	case errors.As(err, &regex):
		return place(regex.URL) + ": " + regex.Err.Error()
	case errors.As(err, &load):
		return find(doc, refs, func(s string) bool { u, _, _ := strings.Cut(s, "#"); return u != "" && strings.HasSuffix(load.URL, u) }) + load.Err.Error()
	case errors.As(err, &anchor):
		_, name, _ := strings.Cut(anchor.Reference, "#")
		return find(doc, refs, func(s string) bool { return strings.HasSuffix(s, "#"+name) }) + fmt.Sprintf("there is no anchor %.100q", name)
	case errors.As(err, &pointer):
		_, to, _ := strings.Cut(pointer.URL, "#")
		return find(doc, refs, pointsTo(to)) + fmt.Sprintf("nothing is at %.100q", place(pointer.URL))
	case errors.As(err, &escaped):
		_, to, _ := strings.Cut(escaped.URL, "#")
		return find(doc, refs, pointsTo(to)) + fmt.Sprintf("%.100q is no JSON pointer; ~0 and ~1 are what ~ may stand in", place(escaped.URL))
	case errors.As(err, &language):
		return fmt.Sprintf("$schema: %.100q is no language that is known; https://json-schema.org/draft/2020-12/schema would be right", language.URL)
	case errors.As(err, &cycle), errors.As(err, &mismatch):
		return find(doc, []string{"$schema"}, func(string) bool { return true }) + "another language than that of the whole schema; one for all of it would be right"
	case errors.As(err, &meta):
		return place(meta.URL) + ": $schema is no URI; https://json-schema.org/draft/2020-12/schema would be right"
	case errors.As(err, &id):
		return place(id.URL) + ": an id that is no URI"
	case errors.As(err, &anchorID):
		return place(anchorID.URL) + ": an anchor that is no name"
	case errors.As(err, &twice):
		return pointerOf(twice.Ptr1) + ": the id is that of " + pointerOf(twice.Ptr2) + " too; another would be right"
	case errors.As(err, &twiceName):
		return pointerOf(twiceName.Ptr1) + fmt.Sprintf(": the anchor %.100q is that of ", twiceName.Anchor) + pointerOf(twiceName.Ptr2) + " too; another would be right"
	case errors.As(err, &parse):
		return find(doc, refs, func(s string) bool { return s == parse.URL || strings.HasSuffix(parse.URL, s) && s != "" }) +
			fmt.Sprintf("%.100q is no URI", strings.TrimPrefix(parse.URL, location))
	}
	return strings.ReplaceAll(err.Error(), location, "")
}

// pointsTo finds references to a fragment, written as they may be.
func pointsTo(fragment string) func(string) bool {
	return func(s string) bool {
		_, f, ok := strings.Cut(s, "#")
		return ok && plainly(f) == plainly(fragment)
	}
}

// place is the fragment of an address as a JSON pointer.
func place(address string) string {
	_, fragment, _ := strings.Cut(address, "#")
	return pointerOf(plainly(fragment))
}

func plainly(fragment string) string {
	if s, err := url.PathUnescape(fragment); err == nil {
		return s
	}
	return fragment
}

func pointerOf(p string) string {
	if p == "" {
		return "/"
	}
	return cut(p, 200)
}

// find is the place of the first text under one of these names that is as is says, with a colon, and "" where there is none.
func find(v any, names []string, is func(string) bool) string {
	at := search(v, names, is, 0)
	if at == nil {
		return ""
	}
	return at.place() + ": "
}

func search(v any, names []string, is func(string) bool, depth int) *misplaced {
	if depth > maxNesting {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names {
			if s, ok := v[name].(string); ok && is(s) {
				return (&misplaced{}).in(name)
			}
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if m := search(v[k], names, is, depth+1); m != nil {
				return m.in(k)
			}
		}
	case []any:
		for i, x := range v {
			if m := search(x, names, is, depth+1); m != nil {
				return m.in(strconv.Itoa(i))
			}
		}
	}
	return nil
}

// say collects the first causes of a failure: what is not explained by others. under is the place of what was judged.
func say(e *jsonschema.ValidationError, under string, said *[]string) {
	if _, ok := e.ErrorKind.(*kind.PropertyNames); ok { // what follows is about a name, which is nowhere itself
		way := misplaced{way: slices.Clone(e.InstanceLocation)}
		slices.Reverse(way.way)
		under += strings.TrimSuffix(way.place(), "/")
	}
	for _, cause := range e.Causes {
		say(cause, under, said)
	}
	if len(e.Causes) > 0 || len(*said) == maxCauses {
		return
	}
	u := e.BasicOutput()
	at, why := under+u.InstanceLocation, "it does not fit"
	if u.Error != nil {
		why = u.Error.String()
	}
	if f, ok := e.ErrorKind.(*kind.Format); ok {
		why = misformed(f)
	}
	*said = append(*said, line(pointerOf(at), 200)+": "+line(why, maxSaid/2))
}

// misformed says what is wrong with a value by its format. What Go's libraries say of it names their parts.
func misformed(f *kind.Format) string {
	var none *unequal
	var twice *alike
	if errors.As(f.Err, &none) || errors.As(f.Err, &twice) {
		return f.Err.Error()
	}
	got, ok := f.Got.(string)
	if !ok {
		got = fmt.Sprint(f.Got)
	}
	what := fmt.Sprintf("%.100q is not valid %s", got, f.Want)
	if spoken[f.Want] && !strings.Contains(f.Err.Error(), " address: ") { // that of a mail address may be one of these
		what += ": " + f.Err.Error()
	}
	return what
}

// spoken are the formats whose reasons are words.
var spoken = map[string]bool{
	"regex": true, "uuid": true, "duration": true, "hostname": true, "email": true, "json-pointer": true, "relative-json-pointer": true, "semver": true,
}

// line is a text on one line, of at most n bytes.
func line(text string, n int) string {
	return cut(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, text), n)
}
