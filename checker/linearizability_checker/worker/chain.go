package main

import "hash/maphash"

// A chain is an immutable sequence of values that shares its beginning with the chains it was made from; nil is the
// empty one. Adding a value costs constant time and memory, looking one up logarithmic time: a search holds very many
// logs that differ in their last entries only.
type chain struct {
	value  value
	length int64
	hash   uint64
	before *chain // the chain without the last value
	jump   *chain // a shorter chain further back (skew binary: Myers 1983)
}

var hashSeed = maphash.MakeSeed()

func (v value) hash() uint64 { return maphash.Comparable(hashSeed, v) }

func (c *chain) size() int64 {
	if c == nil {
		return 0
	}
	return c.length
}

func (c *chain) push(v value) *chain {
	next := &chain{value: v, length: c.size() + 1, before: c, jump: c, hash: (v.hash() ^ c.sum()) * 0x9e3779b97f4a7c15}
	if c != nil && c.length-c.jump.size() == c.jump.size()-c.jump.back().size() {
		next.jump = c.jump.back()
	}
	return next
}

func (c *chain) back() *chain {
	if c == nil {
		return nil
	}
	return c.jump
}

func (c *chain) sum() uint64 {
	if c == nil {
		return 0
	}
	return c.hash
}

// at returns the value at a position that must be below the size.
func (c *chain) at(position int64) value {
	for c.length != position+1 {
		if c.jump.size() > position {
			c = c.jump
		} else {
			c = c.before
		}
	}
	return c.value
}

// equalFrom tells whether two chains of the same size hold the same values from a position on in each; the rest of
// both is equally long.
func equalFrom(a, b *chain, rest int64) bool {
	for ; rest > 0 && a != b; rest-- {
		if a.value != b.value {
			return false
		}
		a, b = a.before, b.before
	}
	return true
}
