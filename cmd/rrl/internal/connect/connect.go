// Package connect connects to a server, a Sentinel set-up or a Redis Cluster with the options of the
// command line, and explains errors.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Options has the address of a Redis and credentials. The zero value is the Redis on localhost:6379.
type Options struct {
	URL                  string        // redis://, rediss:// or unix://, with ?addr=HOST:PORT and ?master_set=NAME
	PasswordFile         string        // a file with the password, instead of one in the URL
	SentinelPasswordFile string        // the same for the sentinels themselves
	CA, Cert, Key        string        // PEM files, for rediss://
	Timeout              time.Duration // of connecting and of each reply
	Serves               bool          // many requests at once; otherwise a few calls of a tool
}

// DefaultURL is used if there is no other URL.
const DefaultURL = "redis://localhost:6379"

func (o Options) client() (rueidis.ClientOption, error) {
	text := o.URL
	if text == "" {
		text = DefaultURL
	}
	option, err := parse(text)
	if err != nil {
		return option, err
	}
	if err := cmp.Or(o.authenticate(&option), o.trust(&option)); err != nil {
		return option, err
	}
	option.Sentinel.TLSConfig = option.TLSConfig
	option.Dialer.Timeout, option.ConnWriteTimeout = o.Timeout, o.Timeout
	// Users need no right for CLIENT, and the tool reads fresh values.
	option.DisableCache, option.ClientSetInfo = true, rueidis.DisableClientSetInfo
	option.ClusterOption.MaxMovedRedirections = 16 // nodes that disagree redirect forever
	if !o.Serves {
		option.DisableRetry, option.PipelineMultiplex = true, -1
	}
	return option, nil
}

// parse parses a URL. Its errors contain no part of the URL, since any part may belong to a password.
func parse(text string) (rueidis.ClientOption, error) {
	const want = "want redis://, rediss:// (TLS) or unix://, as in redis://USER@HOST:6379/0"
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || misplaced(text, parsed) {
		return rueidis.ClientOption{}, fmt.Errorf("--redis (or REDIS_URL) is not a URL: %s; "+
			"escape special characters of the password as %%XX (/ is %%2F, # is %%23, ? is %%3F), "+
			"or put the password into a file for --password-file", want)
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		reason, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "redis: "), ":") // the rest quotes the URL
		return option, fmt.Errorf("--redis (or REDIS_URL): %s; %s", reason, want)
	}
	return option, nil
}

// misplaced reports whether a part of a URL after its host looks like the end of a password.
func misplaced(text string, parsed *url.URL) bool {
	if parsed.Scheme == "unix" {
		return parsed.Host != "" // it has no host; a path may contain @
	}
	return strings.Contains(text, "#") || strings.Contains(parsed.Path+parsed.RawQuery, "@")
}

func (o Options) trust(option *rueidis.ClientOption) error {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		return nil
	}
	if option.TLSConfig == nil {
		return errors.New("--tls-ca, --tls-cert and --tls-key are for rediss:// URLs: write rediss:// instead of redis://")
	}
	if o.CA != "" {
		// For each new connection, since an authority is replaced before its certificates expire.
		option.DialCtxFn = func(ctx context.Context, to string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			authorities, err := Authorities(o.CA)
			if err != nil {
				return nil, fmt.Errorf("--tls-ca: %w", err)
			}
			config = config.Clone()
			config.RootCAs = authorities
			return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", to)
		}
		if _, err := Authorities(o.CA); err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("--tls-cert and --tls-key go together: give both or none")
	}
	if o.Cert != "" {
		// For each new connection, since files of certificates are renewed.
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
			if err != nil {
				return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", o.Cert, o.Key, err)
			}
			return &pair, nil
		}
		option.TLSConfig.GetClientCertificate = read
		_, err := read(nil)
		return err
	}
	return nil
}

// Authorities reads a PEM file with certificate authorities.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	all := x509.NewCertPool()
	if err == nil && !all.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s has no PEM certificate", file)
	}
	return all, err
}

// authenticate reads the passwords in files for each new connection, since they change. The dialer of the
// sentinels records their addresses: they have a password of their own.
func (o Options) authenticate(option *rueidis.ClientOption) error {
	var sentinels sync.Map
	option.Sentinel.Dialer.Control = func(_, address string, _ syscall.RawConn) error {
		sentinels.Store(address, true)
		return nil
	}
	user, password := option.Username, option.Password
	option.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, err error) {
		if _, ok := sentinels.Load(c.Address.String()); ok {
			a.Password, err = secret("--sentinel-password-file", o.SentinelPasswordFile, "")
			return a, err
		}
		a.Username = user
		a.Password, err = secret("--password-file", o.PasswordFile, password)
		return a, err
	}
	_, err := secret("--password-file", o.PasswordFile, "")
	_, failed := secret("--sentinel-password-file", o.SentinelPasswordFile, "")
	return cmp.Or(err, failed)
}

// secret reads a file with one line. Without a file it returns the other password.
func secret(flag, file, other string) (string, error) {
	if file == "" {
		return other, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s: %s does not have exactly one line with a password", flag, file)
	}
	return line, nil
}

// Redis is a connection to a server, a Sentinel set-up or a cluster.
type Redis struct {
	rueidis.Client
	Where   string // its address, or the first one's
	Replica bool   // it is a single server that follows another one
}

// Open connects and detects a replica or a cluster. A service connects again when its server has become a replica.
func Open(ctx context.Context, o Options) (*Redis, error) {
	r, err := open(ctx, o)
	if err == nil && o.Serves {
		r.Client = redisx.Redial(r.Client, o.connect)
	}
	return r, err
}

func (o Options) connect() (rueidis.Client, error) {
	r, err := open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return r.Client, nil
}

func open(ctx context.Context, o Options) (*Redis, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	where := strings.Join(option.InitAddress, ", ")
	if set := option.Sentinel.MasterSet; set != "" {
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, explainSentinel(err, fmt.Sprintf("the Sentinel at %s (master_set=%s)", where, set), option.Username)
		}
		return &Redis{Client: client, Where: where}, nil
	}
	var errs []error
	for _, address := range option.InitAddress {
		single := option
		single.InitAddress, single.ForceSingleClient = []string{address}, true
		client, err := rueidis.NewClient(single)
		if err != nil {
			errs = append(errs, explain(err, address, option.Username))
			continue
		}
		about, err := client.Do(ctx, client.B().Arbitrary("HELLO", "3").Build()).AsMap()
		if err != nil {
			client.Close()
			errs = append(errs, explain(err, address, option.Username))
			continue
		}
		mode, role := textOf(about, "mode"), textOf(about, "role")
		switch mode {
		case "cluster":
			client.Close()
			option.InitAddress = append([]string{address}, option.InitAddress...)
			return openCluster(option, address)
		case "sentinel":
			client.Close()
			return nil, fmt.Errorf("%s is a Sentinel and has no limiters: name its master, as in redis://%s?master_set=mymaster", address, address)
		}
		return &Redis{Client: client, Where: address, Replica: role != "master"}, nil
	}
	return nil, errors.Join(errs...)
}

func (r *Redis) cluster() bool { return r.Mode() == rueidis.ClientModeCluster }

// Late returns a connection that Open makes as soon as it can, for an error that IsUnreachable.
func (o Options) Late(away error) *Redis {
	option, _ := o.client() // Open has checked it
	return &Redis{Client: redisx.Late(away, o.connect), Where: strings.Join(option.InitAddress, ", ")}
}

func openCluster(option rueidis.ClientOption, where string) (*Redis, error) {
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, explain(err, "the cluster of "+where, option.Username)
	}
	if client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, fmt.Errorf("%s is a cluster and denies user %q its slots: "+
			"grant the rights +cluster|slots and +cluster|shards", where, describeUser(option.Username))
	}
	return &Redis{Client: client, Where: where}, nil
}

func textOf(about map[string]rueidis.RedisMessage, field string) string {
	message := about[field]
	text, _ := message.ToString()
	return text
}

// Node is a server that can be scanned.
type Node struct {
	rueidis.Client
	Where string

	slots []redisx.SlotRange // nil for a single server, which has all
}

// Has reports whether the keys of a key's slot are on the node.
func (n Node) Has(key string) bool {
	slot := int64(redisx.Slot(key))
	return n.slots == nil || slices.ContainsFunc(n.slots, func(r redisx.SlotRange) bool {
		return r.First <= slot && slot <= r.Last
	})
}

// Masters returns each server that has keys of its own: one, or all masters of a cluster. If slots of a
// cluster have no master, it returns an error with their number.
func (r *Redis) Masters(ctx context.Context) ([]Node, error) {
	masters, err := r.masters(ctx)
	missing := int64(redisx.Slots)
	for _, m := range masters {
		for _, s := range m.slots {
			missing -= s.Last - s.First + 1
		}
	}
	if err == nil && missing > 0 && r.cluster() {
		return nil, fmt.Errorf("the cluster of %s has no master for %d of its %d slots: "+
			"see CLUSTER NODES, restart the nodes or let a replica take over", r.Where, missing, redisx.Slots)
	}
	return masters, err
}

// Home returns the server that has the key.
func (r *Redis) Home(ctx context.Context, key string) (Node, error) {
	masters, err := r.masters(ctx)
	if err != nil {
		return Node{}, err
	}
	if i := slices.IndexFunc(masters, func(m Node) bool { return m.Has(key) }); i >= 0 {
		return masters[i], nil
	}
	return Node{}, fmt.Errorf("no master of the cluster of %s has the slot of %q: see CLUSTER NODES", r.Where, key)
}

func (r *Redis) masters(ctx context.Context) ([]Node, error) {
	if !r.cluster() {
		return []Node{{Client: r.Client, Where: r.Where}}, nil
	}
	result, asked := r.Any(ctx, "CLUSTER", "SLOTS")
	reply, err := result.ToArray()
	if err != nil {
		return nil, r.Explain(err)
	}
	slots, ok := redisx.ReadSlots(reply, asked)
	if !ok {
		return nil, fmt.Errorf("%s returns an unexpected reply to CLUSTER SLOTS", asked)
	}
	known := r.Nodes()
	var masters []Node
	for _, s := range slots {
		address := s.Nodes[0]
		client, ok := known[address]
		if !ok {
			return nil, fmt.Errorf("the cluster changed meanwhile: the master %s is new: run this again", address)
		}
		i := slices.IndexFunc(masters, func(m Node) bool { return m.Where == address })
		if i < 0 {
			i, masters = len(masters), append(masters, Node{Client: client, Where: address})
		}
		masters[i].slots = append(masters[i].slots, s)
	}
	return masters, nil
}

// Any runs a command without a key on any server, and returns the address of that one. It asks one after the
// other until one answers.
func (r *Redis) Any(ctx context.Context, command ...string) (result rueidis.RedisResult, asked string) {
	if !r.cluster() {
		return r.Do(ctx, r.B().Arbitrary(command...).Build()), r.Where
	}
	nodes := r.Nodes()
	if first := nodes[r.Where]; first != nil { // it has answered before
		result = first.Do(ctx, first.B().Arbitrary(command...).Build())
		if result.NonRedisError() == nil {
			return result, r.Where
		}
		delete(nodes, r.Where)
	}
	for address, node := range nodes {
		result = node.Do(ctx, node.B().Arbitrary(command...).Build())
		if result.NonRedisError() == nil {
			return result, address
		}
	}
	return result, r.Where
}
