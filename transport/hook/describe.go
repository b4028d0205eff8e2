package hook

import (
	"net/http"
	"reflect"

	"github.com/quorate/quorate/transport/httpapi"
)

// Describe is the hooks' part of the OpenAPI document.
func Describe() httpapi.Beside {
	answer, problem := reflect.TypeFor[WebhookAnswer](), reflect.TypeFor[httpapi.Problem]()
	refused := func(status int, doc string) httpapi.BesideAnswer {
		return httpapi.BesideAnswer{Status: status, Doc: doc, Type: httpapi.ProblemType, Body: problem, Retried: status == http.StatusServiceUnavailable}
	}
	return httpapi.Beside{
		Method: http.MethodPost, Path: "/hook/{name}", Tag: "hooks", Identified: true,
		Summary: "Take in a webhook of another system, which signs it as the configuration of the hook says",
		Body:    "the bytes that are signed, which become the message's body, of whatever type",
		Answers: []httpapi.BesideAnswer{
			{Status: http.StatusAccepted, Doc: "it is on a majority's disks, and waits or is being worked on; of a repeat, the first one is", Type: "application/json", Body: answer},
			{Status: http.StatusOK, Doc: "a repeat of one that has ended, one that the hook's map has made nothing of, or a challenge", Type: "application/json", Body: answer},
			refused(http.StatusBadRequest, "no idempotency key where the hook asks for one, not as its schema has it, or its map fails"),
			refused(http.StatusUnauthorized, "no signature of these bytes under a secret of the hook, or too old a one"),
			refused(http.StatusNotFound, "there is no hook of this name"),
			refused(http.StatusMethodNotAllowed, "POST would be right"),
			refused(http.StatusRequestTimeout, "the body was not complete in time"),
			refused(http.StatusConflict, "other bytes have come under the same idempotency key; id is the message's that they became"),
			refused(http.StatusRequestEntityTooLarge, "more bytes than the hook takes"),
			refused(http.StatusServiceUnavailable, "for now: no leader, no room or too many at once; with outcome unknown it may be in the log for all that"),
		},
	}
}
