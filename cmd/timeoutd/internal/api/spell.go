package api

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// fields are the names in JSON of the fields that errors of package timeout name.
var fields = func() map[string]string {
	names := map[string]string{"After": "after", "Limit": "limit", "Max": "max", "Wait": "wait"}
	for _, of := range []any{timeout.Topic{}, timeout.Callback{}, timeout.Options{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			names[field.Name] = jsonName(field)
		}
	}
	return names
}()

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// named finds the field that an error begins with, and the one that it is compared with.
var named = regexp.MustCompile(`^((?s:.*?)invalid argument: )([A-Z]\w*)( \S+ of topic \S+, must be at most )?([A-Z]\w*)?`)

// spell writes the fields in the text of an error as the API does: RetainDead is retain_dead.
func spell(text string) string {
	at := named.FindStringSubmatchIndex(text)
	if at == nil {
		return text
	}
	for _, group := range []int{4, 2} { // from behind, so that places stay
		from, to := at[2*group], at[2*group+1]
		if from >= 0 && fields[text[from:to]] != "" {
			text = text[:from] + fields[text[from:to]] + text[to:]
		}
	}
	return text
}
