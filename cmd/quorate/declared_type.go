package main

import (
	"reflect"
	"strings"
)

// declaredType says what the value of a key of a [[queue]], [[schedule]] or [[hook]] has to be, "" if there is no such key.
func declaredType(key string) string {
	path := strings.Split(key, ".")
	var t reflect.Type
	switch path[0] {
	case "queue":
		t = reflect.TypeFor[declaredQueue]()
	case "schedule":
		t = reflect.TypeFor[declaredSchedule]()
	case "hook":
		t = reflect.TypeFor[declaredHook]()
	default:
		return ""
	}
	if len(path) == 1 {
		return "tables [[" + key + "]]"
	}
	for _, name := range path[1:] {
		switch t.Kind() {
		case reflect.Struct:
			var field reflect.Type
			for i := range t.NumField() {
				if f := t.Field(i); f.Tag.Get("toml") == name {
					field = f.Type
				}
			}
			if field == nil {
				return ""
			}
			t = field
		case reflect.Map:
			t = t.Elem()
		default:
			return ""
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number without quotes"
	case reflect.Float64:
		return "a number without quotes"
	case reflect.Struct:
		return "a table [" + key + "] of " + declaredHelp(key+".")
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return `a table { name = "value" }`
		}
		return "a table { name = 1 }"
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.String:
			return `a list of strings: ["X-GitHub-Event", "X-GitHub-Delivery"]`
		case reflect.Slice:
			return `a list of keys, each a list of strings: [["lost", "nightly"]]`
		}
		return "a list of whole numbers: [1000, 5000]"
	}
	return "a string in quotes"
}
