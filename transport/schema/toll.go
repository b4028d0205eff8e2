package schema

import (
	"encoding/json"
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// toll has a part pay, when it looks at a value, for all the looks that it will have others take: one that fails by its type, and one that is
// true or false, are not asked themselves. What the library does by exact arithmetic, or by hashes that somebody may choose, is done here.
func (m *meter) toll(s *jsonschema.Schema) {
	m.marks = m.marks || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	t := &toll{m: m, s: s, unique: s.UniqueItems, always: len(s.AllOf) + len(s.AnyOf) + len(s.OneOf)}
	for _, there := range []bool{s.Not != nil, s.If != nil, s.Then != nil, s.Else != nil, s.Ref != nil, s.RecursiveRef != nil, s.DynamicRef != nil} {
		if there {
			t.always++
		}
	}
	for _, there := range []bool{s.Items != nil, s.AdditionalItems != nil, s.Items2020 != nil, s.Contains != nil, s.UnevaluatedItems != nil} {
		if there {
			t.eachItem++
		}
	}
	for _, there := range []bool{s.AdditionalProperties != nil, s.PropertyNames != nil, s.UnevaluatedProperties != nil} {
		if there {
			t.eachName++
		}
	}
	t.object = len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	for _, names := range s.DependentRequired {
		t.object += len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			t.object += len(names)
		}
	}
	for _, r := range []*big.Rat{s.Maximum, s.Minimum, s.ExclusiveMaximum, s.ExclusiveMinimum, s.MultipleOf} {
		if r != nil {
			t.number += 1 + (r.Num().BitLen()+r.Denom().BitLen())/64
		}
	}
	switch {
	case s.Const != nil:
		t.values, t.what = []any{*s.Const}, "value must be "
	case s.Enum != nil:
		t.values, t.what = s.Enum.Values, "value must be one of "
	}
	s.Const, s.Enum, s.UniqueItems = nil, nil, false
	t.own = s.Format
	s.Format = &jsonschema.Format{Validate: t.look}
	if t.own != nil {
		s.Format.Name = t.own.Name
	}
}

// toll is what one part of a schema takes for a look.
type toll struct {
	m *meter
	s *jsonschema.Schema

	always   int // looks at the value itself
	eachItem int // at each item of a list
	eachName int // for each name of an object, beside those that are named
	object   int // names that are asked for in an object
	number   int // for a number

	values []any // of const and enum; none, and what "": there is neither
	what   string
	unique bool
	own    *jsonschema.Format
}

// look is what the library asks as the format of a value, before it goes on.
func (t *toll) look(v any) error {
	steps := t.always
	switch v := v.(type) {
	case []any:
		steps += min(len(v), len(t.s.PrefixItems)) + len(v)*t.eachItem
	case map[string]any: // each name is looked up, which is cheaper than a look
		steps += min(len(v), len(t.s.Properties)) + len(v)*t.eachName + t.object + len(v)*(1+len(t.s.PatternProperties))/4
	case json.Number:
		steps += t.number
	}
	t.m.pay(steps + (1+steps)*t.m.size(v)) // each branch may measure it, or note what is in it
	if t.what != "" && !t.m.among(v, t.values) {
		return &unequal{t.what, t.values}
	}
	if list, ok := v.([]any); ok && t.unique {
		if err := t.m.distinct(list); err != nil {
			return err
		}
	}
	if t.own != nil {
		return t.own.Validate(v)
	}
	return nil
}

// size is what a look at a value costs beside its branches: a text is measured, a number is calculated with, and of a list or an object it may
// be noted what is in it.
func (m *meter) size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / textStep
	case json.Number:
		return numberSize(v)
	case []any:
		if m.marks {
			return len(v)
		}
	case map[string]any:
		if m.marks {
			return len(v)
		}
	}
	return 0
}

// numberSize is what exact arithmetic with a number costs: nothing to speak of for most.
func numberSize(n json.Number) int {
	_, _, exponent := decimal(string(n))
	return (len(n) + max(exponent, -exponent)) / 32
}
