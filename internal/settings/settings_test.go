package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFactIsNoSettingOfAProgram(t *testing.T) {
	n := 1
	s := New("my-program", "", []Group{{Title: "All", Settings: []Setting{
		{Name: "before", Value: Number(&n)},
		{Name: "fact", Value: Fact(n)},
		{Name: "after", Value: Number(&n)},
	}}})
	_, ok := s.Find("fact")
	require.False(t, ok)
	require.EqualError(t, s.readFlags([]string{"-fact", "2"}), "flag provided but not defined: -fact")
	require.ErrorContains(t, s.Parse(strings.NewReader("fact 2"), "FILE"), `FILE:1: unknown name "fact"`)
	require.ErrorContains(t, s.CheckNames([]string{"MY_PROGRAM_FACT=2"}), "MY_PROGRAM_FACT is no variable")
	require.NoError(t, s.readFlags([]string{"-after", "2"}))
	require.Equal(t, 2, n)
	require.Error(t, Fact(n).Set("2"))
}

func TestFieldNames(t *testing.T) {
	require.Equal(t, "Timeout", Setting{Name: "timeout"}.FieldName())
	require.Equal(t, "MaxLine", Setting{Name: "max-line"}.FieldName())
	require.Equal(t, "Age.Max", Setting{Name: "max-age", Field: "Age.Max"}.FieldName())
}
