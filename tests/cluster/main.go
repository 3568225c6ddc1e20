// Command testcluster is a whole Kubernetes in one program: the control plane, what runs on a
// node, and kubectl. The first argument, or the name it is called by, selects the component, so
// a directory of links to it can stand in for the separate programs.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps each name to a function that runs it with its arguments and returns the exit
// code. os.Args is already that of the separate program.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 command(kubelet.NewKubeletCommand),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kubectl":                 runKubectl,
}

// command runs what create returns. Which of the two it is differs by the version of Kubernetes.
func command(create any) func() int {
	return func() int {
		switch create := create.(type) {
		case func() *cobra.Command:
			return cli.Run(create())
		case func(context.Context) *cobra.Command:
			return cli.Run(create(context.Background()))
		default:
			panic(fmt.Sprintf("no command: %T", create))
		}
	}
}

// runKubectl reports errors and exit codes the way kubectl itself does ("Error from server ...").
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
		return 1
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := components[name]; !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, known := components[name]
	if !known {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "usage: testcluster %s [arguments]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(run())
}
