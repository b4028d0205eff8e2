package wire

import (
	"fmt"
	"slices"
)

// checkStrings judges the strings of a KV key, or of a prefix of keys, which may have none.
func checkStrings(field string, key []string, least int) *Fault {
	if len(key) < least || len(key) > MaxKVStrings {
		return Invalid(field, "%d strings; %d to %d are allowed", len(key), least, MaxKVStrings)
	}
	for i, s := range key {
		if f := checkText(fmt.Sprintf("%s[%d]", field, i), s, 0, MaxKVStringBytes); f != nil {
			return f
		}
	}
	return nil
}

// checkKeys judges keys_if_undelivered.
func checkKeys(keys [][]string) *Fault {
	const field = "keys_if_undelivered"
	if len(keys) > MaxKVKeys {
		return Invalid(field, "%d keys; at most %d are allowed", len(keys), MaxKVKeys)
	}
	for i, key := range keys {
		if f := checkStrings(fmt.Sprintf("%s[%d]", field, i), key, 1); f != nil {
			return f
		}
		for j := range i {
			if slices.Equal(key, keys[j]) {
				return Invalid(fmt.Sprintf("%s[%d]", field, i), "the same as key %d: each may be named once", j)
			}
		}
	}
	return nil
}

// Validate judges a request for one key.
func (k *KVGet) Validate() *Fault { return checkStrings("key", k.Key, 1) }

// Validate judges a listing of keys.
func (k *KVList) Validate() *Fault {
	return first(checkStrings("prefix", k.Prefix, 0), checkStrings("after", k.After, 0), checkRange("limit", int64(k.Limit), 0, MaxList))
}

// Validate judges the deletion of a key.
func (k *KVDelete) Validate() *Fault {
	return first(checkStrings("key", k.Key, 1), k.Request.Validate(1))
}

// Validate judges a watch.
func (k *KVWatch) Validate() *Fault {
	if k.Now && k.From != 0 {
		return Invalid("from", "%d, with now too: give one of the two", k.From)
	}
	return first(checkStrings("prefix", k.Prefix, 0), checkRange("limit", int64(k.Limit), 0, MaxList),
		checkRange("wait_ms", k.WaitMillis, 0, MaxWaitMillis))
}
