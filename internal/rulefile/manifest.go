package rulefile

import "slices"

// refuseManifest reports that a file is a manifest of Kubernetes with the text in it, as in a ConfigMap.
func (d *Decoder) refuseManifest(root *Node) {
	fields := make(map[string]*Node)
	var names []string
	for i := 0; root.Tag == Mapping && i+1 < len(root.Content); i += 2 {
		fields[root.Content[i].Value] = root.Content[i+1]
		names = append(names, root.Content[i].Value)
	}
	data := fields["data"]
	if !slices.Contains(names, "apiVersion") || !slices.Contains(names, "kind") || data == nil {
		return
	}
	if data.Tag != Mapping || len(data.Content) == 0 {
		d.Fail(root, "a Kubernetes manifest (%s), want the text of a file", Clip(fields["kind"].Value))
		return
	}
	name := data.Content[0]
	d.Fail(name, "a Kubernetes manifest (%s), want the text of %q: cut the lines up to %d, and the indentation of the others",
		Clip(fields["kind"].Value), Clip(name.Value), name.Line)
}
