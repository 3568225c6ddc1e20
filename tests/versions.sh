#!/usr/bin/env bash
# Scenarios that matter, on every minor version of Kubernetes that is supported but the one of `make test`, or on
# versions by name: ./tests/versions.sh v1.30.14. As root on real nodes too. The programs of a version are built once.
set -uo pipefail
cd "$(dirname "$0")/.."

versions=("$@")
[[ $# -gt 0 ]] || versions=(v1.29.15 v1.30.14 v1.31.14 v1.32.13 v1.33.13 v1.35.4 v1.36.3 v1.37.2)

servers=(
  advancedcronjob::runs::a_tick_creates_a_child_that_the_status_names
  broadcastjob::each_node_that_suits_runs_a_pod_to_its_end
  chart::installation::the_chart_and_the_program_never_undo_what_the_other_wrote
  cloneset::inplace::an_image_changes_while_the_pod_stays
  cloneset::inplace::labels_and_annotations_change_without_a_restart
  cloneset::rollout::surge_alone_keeps_everything_available
  cloneset::scale::pods_and_claims_come_and_go_together
  daemonset::placing::each_node_has_a_pod_of_its_own
  daemonset::update::pods_are_updated_in_place_where_that_is_possible
  examples::each_kind_has_an_example_that_can_be_applied
  images::jobs::nodes_of_pods_are_served_as_pods_come
  injection::examples::logship_is_injected_with_shared_mounts_and_env_in_its_namespace_only
  persistentpodstate::steering::scenarios_1_to_3_pods_of_an_advanced_set_go_back
  podunavailablebudget::workloads::an_update_in_place_keeps_to_the_budget
  podunavailablebudget::workloads::as_many_pods_go_as_the_budget_allows
  probes::results::each_result_has_its_condition_and_its_labels
  protection::definitions::a_cascading_definition_is_kept_while_objects_exist_anywhere
  protection::namespaces::a_cascading_namespace_is_kept_while_it_has_active_pods
  registration::registrations_follow_the_program_and_nobody_else
  resourcedistribution::content::copies_follow_the_resource_and_edits_are_put_back
  restart::requests::scenarios_28_and_32_a_pod_is_not_ready_while_its_containers_are_restarted
  sidecar_terminator::a_request_ends_the_sidecars_once_the_main_container_is_done
  sidecarset_rollout::update::one_pod_after_the_other_restarts_nothing_but_its_sidecar
  statefulset::claims::claims_grow_before_their_pods_change
  statefulset::scale::ordered_pods_come_one_after_another_and_are_known_by_their_names
  statefulset::update::images_are_updated_in_place_from_the_highest_ordinal_down
  uniteddeployment::workloads::replicas_are_divided_scaled_and_put_back
  workloadspread::placing::scenarios_1_2_4_and_38_a_clone_set_over_two_subsets
)
# With policies, which the agent of a node needs too.
policies=(
  agent_rights::an_agent_changes_nothing_of_another_node
  chart::the_manifests_can_be_applied_as_they_are
  images::agent::a_job_is_carried_out_by_the_agent_of_the_node
  probes::agent::what_the_agent_finds_is_marked_on_the_pod
  protection::policies::policies_hold_while_no_replica_runs_and_answer_alike_beside_replicas
)
# Where Kubernetes resizes Pods by default.
resizes=(
  cloneset::gates::all_resources_change_in_one_edit
  podunavailablebudget::operations::a_resize_is_an_update_without_its_gate
)
nodes=(
  cloneset::updates_in_place_keep_their_order_and_hooks_hold_pods
  images::credentials_serve_those_alone_who_brought_them
  images::the_kubelet_asks_nobody_for_what_the_agent_pulled
  probes::commands_and_requests_in_real_containers_mark_their_pod
  restarts::requests_restart_containers_in_order_after_their_hooks_and_in_time
  sidecarset::a_native_sidecar_runs_beside_the_main_container
  statefulset::the_walk_through_of_stateful_sets_works
  work::sidecars_run_deletes_are_refused_and_a_dry_run_shows_both
)
node_resizes=(cloneset::a_resize_touches_no_container)
# Where kubelets restart native sidecars for their images.
node_sidecars=(cloneset::a_native_sidecar_changes_beside_a_container_that_runs_on)

status=0
# run PROGRAM TEST...: runs just these tests, each of which must be there.
run() {
  local program=$1 summary
  shift
  # Another package may have a program of this name, with none of these tests.
  summary=$(cargo test --workspace --test "$program" -- --test-threads 2 --exact "$@" 2>&1 | tee >(cat >&2) |
    grep '^test result:' | grep -v ' 0 passed; 0 failed;')
  [[ $summary == "test result: ok. $# passed"* ]] || { status=1 && summary="FAILED, of $#: $summary"; }
  results+=("$KUTTER_KUBERNETES $program: $summary")
}

for version in "${versions[@]}"; do
  export KUTTER_KUBERNETES=$version
  minor=${version#v1.}
  minor=${minor%%.*}
  chosen=("${servers[@]}")
  [[ $minor -lt 30 ]] || chosen+=("${policies[@]}")
  [[ $minor -lt 33 ]] || chosen+=("${resizes[@]}")
  run e2e "${chosen[@]}"
  [[ $EUID -eq 0 && $minor -ge 30 ]] || continue
  chosen=("${nodes[@]}")
  [[ $minor -lt 32 ]] || chosen+=("${node_sidecars[@]}")
  [[ $minor -lt 33 ]] || chosen+=("${node_resizes[@]}")
  run nodes "${chosen[@]/#/only_as_root::}"
done
printf '%s\n' "${results[@]}"
exit "$status"
