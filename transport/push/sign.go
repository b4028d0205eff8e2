package push

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/wire"
)

// Bounds of a secret, in bytes, as Standard Webhooks has them.
const (
	minSecretBytes = 24
	maxSecretBytes = 64
)

const secretPrefix = wire.PushSecretPrefix

// ParseSecret reads a secret as it is written: whsec_ and the base64 of 24 to 64 bytes. Errors do not hold it.
func ParseSecret(text string) ([]byte, error) {
	coded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, fmt.Errorf("it does not begin with %s: that and the base64 of %d to %d random bytes would be right", secretPrefix, minSecretBytes, maxSecretBytes)
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return nil, fmt.Errorf("what follows %s is not base64 (+ and /, with padding)", secretPrefix)
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, fmt.Errorf("it has %d bytes; %d to %d are allowed", len(key), minSecretBytes, maxSecretBytes)
	}
	return key, nil
}

// Sign makes the value of webhook-signature: a signature by each key, "" without keys.
func Sign(keys [][]byte, id string, seconds int64, body []byte) string {
	var all []string
	for _, key := range keys {
		m := hmac.New(sha256.New, key)
		_, _ = m.Write([]byte(id + "." + strconv.FormatInt(seconds, 10) + "."))
		_, _ = m.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	}
	return strings.Join(all, " ")
}
