package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// deployFiles is where the files for installations are, as seen from this package.
const deployFiles = "../../scripts/deploy"

func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deployFiles, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// withPorts puts free ports in the place of those of a text, the same for each everywhere, and gives the client addresses in their order.
func withPorts(t *testing.T, texts []string) (out, clients []string) {
	t.Helper()
	var fixed []string
	addr := regexp.MustCompile(`127\.0\.0\.1:73\d\d`)
	for _, s := range texts {
		fixed = append(fixed, addr.FindAllString(s, -1)...)
	}
	slices.Sort(fixed)
	fixed = slices.Compact(fixed)
	free, err := proc.FreePorts(len(fixed))
	if err != nil {
		t.Fatal(err)
	}
	to := map[string]string{}
	for i, a := range fixed {
		to[a] = free[i]
		if strings.HasSuffix(a, "0") {
			clients = append(clients, free[i])
		}
	}
	for _, s := range texts {
		out = append(out, addr.ReplaceAllStringFunc(s, func(a string) string { return to[a] }))
	}
	return out, clients
}

// runs starts nodes, each with its own arguments, and demands that they are one cluster that works.
func runs(t *testing.T, names []string, args [][]string, clients []string) (*proc.Cluster, *client.Client) {
	t.Helper()
	if len(clients) != 3 || len(names) != 3 {
		t.Fatalf("nodes %v at %v, want three", names, clients)
	}
	c := &proc.Cluster{}
	dir := t.TempDir()
	for i, name := range names {
		c.Nodes = append(c.Nodes, &proc.Node{ClientAddr: clients[i],
			Process: proc.Process{Name: name, Binary: quorateBin, LogFile: filepath.Join(dir, name+".log"), Args: args[i]}})
	}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			for _, n := range c.Nodes {
				b, _ := os.ReadFile(n.LogFile)
				t.Logf("log of %s:\n%s", n.Name, tail(b, 4000))
			}
		}
	})
	if err := c.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := open(t, clients...)
	whole(t, cl, 3)
	var ids []string
	for _, n := range status(t, cl).Nodes {
		ids = append(ids, n.ID)
	}
	if slices.Sort(ids); !slices.Equal(ids, names) {
		t.Errorf("the nodes are %v, want %v", ids, names)
	}
	put(t, cl, "deployed", client.Message{Body: []byte("x")})
	ack(t, cl, take(t, cl, "deployed", time.Minute), "done")
	verify(t, cl, 3)
	return c, cl
}

// declaredQueue waits for a queue that a node's configuration has made.
func declaredQueue(t *testing.T, cl *client.Client, name string) {
	t.Helper()
	eventually(t, 30*time.Second, "queue "+name+" is made", func(ctx context.Context) bool {
		_, err := cl.Queue(ctx, name)
		return err == nil
	})
}

// The commands of compose.yaml, run as processes with folders for their volumes, are a cluster of three; each service's health check says that it
// is well, and that it is not once it is gone.
func TestComposedCluster(t *testing.T) {
	text, clients := withPorts(t, []string{deployed(t, "compose.yaml")})
	var file struct {
		Services map[string]struct {
			Command     []string
			Volumes     []string
			Healthcheck struct{ Test []string }
		}
	}
	if err := yaml.Unmarshal([]byte(text[0]), &file); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range file.Services {
		names = append(names, name)
	}
	slices.Sort(names)
	dir := t.TempDir()
	var args [][]string
	for _, name := range names {
		s := file.Services[name]
		a := slices.Clone(s.Command)
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			if mounted, ro := strings.CutSuffix(to, ":ro"); ro {
				for i := range a {
					a[i] = strings.Replace(a[i], mounted, filepath.Join(deployFiles, from), 1)
				}
				continue
			}
			a = append(a, "--data-dir="+filepath.Join(dir, from)) // the volume
		}
		args = append(args, a)
	}
	c, cl := runs(t, names, args, clients)
	declaredQueue(t, cl, "work")
	healthy := func(i int) error {
		test := file.Services[names[i]].Healthcheck.Test
		out, err := exec.CommandContext(within(t, 30*time.Second), quorateBin, test[2:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w: %s", test, err, out)
		}
		return nil
	}
	for i, name := range names {
		if err := healthy(i); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Nodes[2].Kill()
	if err := healthy(2); err == nil {
		t.Errorf("%s is well, and gone", names[2])
	}
}

// cluster.toml is the first of three nodes, and the others are what it says of them.
func TestClusterFiles(t *testing.T) {
	first := deployed(t, "cluster.toml")
	var texts []string
	names := []string{"n1", "n2", "n3"}
	for i, name := range names {
		text := strings.NewReplacer(`"n1"`, `"`+name+`"`, "/n1", "/"+name).Replace(first)
		for k := range 3 { // client, raft, gossip
			text = strings.Replace(text, fmt.Sprintf(`= "127.0.0.1:734%d"`, k), fmt.Sprintf(`= "127.0.0.1:73%d%d"`, 4+i, k), 1)
		}
		if i > 0 { // the gossip addresses of the other two
			text = strings.Replace(text, fmt.Sprintf(`"127.0.0.1:73%d2"`, 4+i), `"127.0.0.1:7342"`, 2)
			text = strings.Replace(text, `addr             = "127.0.0.1:7342"`, fmt.Sprintf(`addr             = "127.0.0.1:73%d2"`, 4+i), 1)
		}
		texts = append(texts, text)
	}
	texts, clients := withPorts(t, texts)
	dir := t.TempDir()
	var args [][]string
	for i, text := range texts {
		file := filepath.Join(dir, names[i]+".toml")
		if err := os.WriteFile(file, []byte(strings.Replace(text, "/var/lib/quorate", dir, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, []string{"serve", "--config", file})
	}
	_, cl := runs(t, names, args, clients)
	declaredQueue(t, cl, "webhooks")
}
