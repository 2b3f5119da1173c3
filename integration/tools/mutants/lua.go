package main

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	luaToken  = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\\n])*'|\.\.|[<>=~]=|@\d*|\d+|[A-Za-z_][\w.@]*|\S`)
	number    = regexp.MustCompile(`^\d+$`)
	condition = regexp.MustCompile(`(?m)^ *(?:else)?if (.*) then`)
	statement = regexp.MustCompile(`(?m)^ *([A-Za-z_]\w*)[^\n]*$`)

	swaps = map[string]string{
		"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "==", "+": "-", "*": "/", "/": "*",
		"and": "or", "or": "and", "not": "", "true": "false", "false": "true",
		"min": "max", "max": "min", "math.min": "math.max", "math.max": "math.min",
	}
	// keywords begin lines that are not a statement of one line, or that declare what later lines
	// need.
	keywords = map[string]bool{
		"local": true, "if": true, "elseif": true, "else": true, "for": true, "while": true, "repeat": true, "until": true,
		"do": true, "end": true, "return": true, "break": true, "function": true, "and": true, "or": true, "not": true,
	}
)

// luaEdits returns the mutations of a Lua source: swapped operators, constants, signs, whole
// conditions, and deleted statements.
func luaEdits(source string) (all []edit) {
	before := ""
	for _, at := range luaToken.FindAllStringIndex(source, -1) {
		text := source[at[0]:at[1]]
		if strings.HasPrefix(text, "--") {
			continue
		}
		with, swapped := swaps[text]
		switch {
		case swapped:
			all = append(all, edit{at[0], at[1], with})
		case text == "-" && isOperand(before):
			all = append(all, edit{at[0], at[1], "+"})
		case text == "-":
			all = append(all, edit{at[0], at[1], ""})
		case number.MatchString(text) && before != "[":
			if n, err := strconv.ParseUint(text, 10, 63); err == nil {
				all = append(all, edit{at[0], at[1], strconv.FormatUint(n+1, 10)})
			}
		}
		before = text
	}
	for _, at := range condition.FindAllStringSubmatchIndex(source, -1) {
		all = append(all, edit{at[2], at[3], "true"}, edit{at[2], at[3], "false"})
	}
	for _, at := range statement.FindAllStringSubmatchIndex(source, -1) {
		line := source[at[2]:at[1]]
		if !keywords[source[at[2]:at[3]]] && isWhole(source[:at[0]], line, source[at[1]:]) {
			all = append(all, edit{at[2], at[1], ""})
		}
	}
	return all
}

// isOperand reports whether a minus after the token is binary.
func isOperand(token string) bool {
	if token == "and" || token == "or" || token == "return" {
		return false
	}
	return regexp.MustCompile(`[\w)\]@']$`).MatchString(token)
}

// isWhole reports whether a line is a statement by itself.
func isWhole(before, line, after string) bool {
	before = strings.TrimRight(before, " \n")
	next := strings.TrimLeft(after, " \n")
	return strings.Count(line, "(") == strings.Count(line, ")") && strings.Count(line, "{") == strings.Count(line,
		"}") &&
		!regexp.MustCompile(`([-,+*/.=({]|\b(and|or|not|return))$`).MatchString(before) &&
		!regexp.MustCompile(`([-,+*/.=({]|\b(and|or|not|then|do|function|end))$`).MatchString(line) &&
		!regexp.MustCompile(`^([-+*/]|\.\.|and\b|or\b)[^-]`).MatchString(next)
}
