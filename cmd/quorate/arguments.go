package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sayUsage makes every command answer a wrong number of arguments with the one that is missing or too many and its usage line.
func sayUsage(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
		check := sub.Args
		if check == nil {
			continue
		}
		sub.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var said *exitError
			if err == nil || errors.As(err, &said) {
				return err
			}
			return wrongNumber(cmd, args)
		}
	}
}

// wrongNumber says which argument of a usage line, such as "create QUEUE [BODY]", is missing, or which word is none.
func wrongNumber(cmd *cobra.Command, args []string) error {
	least, most := []string{}, 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "(") {
			break
		}
		if most++; !strings.HasPrefix(word, "[") {
			least = append(least, word)
		}
	}
	switch {
	case len(args) < len(least):
		return usagef("%s is missing; want %s", least[len(args)], cmd.UseLine())
	case most < len(args):
		return usagef("%q is one word too many; want %s", args[most], cmd.UseLine())
	}
	return usagef("want %s", cmd.UseLine())
}

// noSuchVerb refuses a word that is no command, and names those that were perhaps meant.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// wrongFlag says what is wrong with a flag and what would be right. It blames the word before the flag where that is no command: a noun
// has no flags of a verb that it has not.
func wrongFlag(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if unknown := noSuchVerb(cmd, cmd.Flags().Args()); unknown != nil {
			return unknown
		}
	}
	var none *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &none) && none.GetSpecifiedShortnames() != "":
		if f := cmd.Flags().Lookup(none.GetSpecifiedShortnames()); f != nil {
			return usagef("unknown flag: -%s; did you mean --%s?", f.Name, f.Name)
		}
		return usagef("unknown flag: -%s", none.GetSpecifiedName())
	case errors.As(err, &none):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := nearest(none.GetSpecifiedName(), names); near != "" {
			return usagef("%w; did you mean --%s?", err, near)
		}
	case errors.As(err, &bare):
		typ, _ := pflag.UnquoteUsage(bare.GetFlag())
		return usagef("--%s needs a value: --%s %s", bare.GetFlag().Name, bare.GetFlag().Name, typ)
	case errors.As(err, &invalid):
		return usagef("--%s: %w", invalid.GetFlag().Name, valueError(invalid))
	}
	return err
}

// valueError is why a flag's value is none, in words of this program where the reason is the standard library's.
func valueError(invalid *pflag.InvalidValueError) error {
	var number *strconv.NumError
	cause := errors.Unwrap(invalid)
	if !errors.As(cause, &number) {
		return cause
	}
	if errors.Is(number, strconv.ErrRange) {
		return fmt.Errorf("%q is out of range", invalid.GetValue())
	}
	want := "a whole number"
	switch typ := invalid.GetFlag().Value.Type(); {
	case typ == "bool":
		want = "true or false"
	case strings.HasPrefix(typ, "float"):
		want = "a number"
	case strings.HasPrefix(typ, "uint"):
		want = "a whole number, 0 or more"
	}
	return fmt.Errorf("%q is not %s", invalid.GetValue(), want)
}
