package hook

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quorate/quorate/wire"
)

// schemaURL names the schema of a hook for references within it; nothing is at that address.
const schemaURL = "quorate:hook"

// noLoader keeps schemas from reading files or addresses: a schema is whole by itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%.100q is outside the schema; references within it alone are followed", url)
}

// compileSchema reads a JSON Schema: draft 2020-12, or what its $schema says.
func compileSchema(text []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	return s, nil
}

// fits checks a body against the hook's schema.
func (h *hook) fits(body []byte) error {
	if h.schema == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return errors.New("the body is no JSON, which the hook's schema asks for")
	}
	if err := h.schema.Validate(v); err != nil {
		return fmt.Errorf("the body does not fit the hook's schema: %s", wire.CutText(err.Error(), 1024))
	}
	return nil
}
