// Package together has the tests of several drivers together. They are a module of their own: a
// module's tests are among its requirements, and a user of one engine wants no other's.
package together
