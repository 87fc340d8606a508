import type { Config } from '../config/load.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { type NodeShare, WHOLE_SHARE } from '../delivery/rate-limiter.ts';
import type { IngestService } from '../ingest/service.ts';
import type { Position } from '../model/event.ts';
import { NODE_ROLES, type NodeRole, type NodeStatus, type SingleJob } from '../model/node.ts';
import { type Duration, SECOND } from '../model/time.ts';
import { acknowledgedByAll } from '../nodes/acknowledged.ts';
import { SharedState } from '../nodes/shared-state.ts';
import { SingleJobs } from '../nodes/single-jobs.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import { type MemoryOfDeliveries, REQUEST_LIMIT } from '../regulations/executor.ts';
import type { RegulationService } from '../regulations/service.ts';
import type { ReportService } from '../reporting/status.ts';
import type { SettingsService } from './settings-service.ts';
import type { ProgramStore } from './storage.ts';

/** Roles of this node; all of them with the embedded engine. */
export function rolesOf({ roles }: Pick<Config, 'roles'>): readonly NodeRole[] {
  return roles ?? NODE_ROLES;
}

/**
 * Whether this process may hold deliveries and send them; `maySend` is undefined where it always may.
 * `heldBack` says why it sends nothing although it should.
 */
export function sendingGate(
  { nodes }: Pick<ProgramStore, 'nodes'>,
  config: Pick<Config, 'roles'>,
  { isSending = true }: { readonly isSending?: boolean | 'held' },
): { readonly maySend?: () => boolean; readonly heldBack?: string } {
  if (isSending === 'held') return { maySend: () => false, heldBack: HELD_BACK };
  if (!isSending) return { maySend: () => false };
  if (nodes === undefined) return {};
  return { maySend: rolesOf(config).includes('deliver') ? nodes.maySend : () => false };
}

const HELD_BACK =
  'deliveries are held back, because a bug has ended the server three times within ten minutes: read "An invariant does not hold" in the ' +
  'runbook, then start it with --deliver; calls are taken meanwhile';

interface JobParts {
  readonly store: Pick<ProgramStore, 'nodes'>;
  readonly clock: Clock;
  readonly config: Pick<Config, 'roles'>;
  readonly options: { readonly logger: Pick<Logger, 'info' | 'warn'> };
}

/** The parts that one node runs at a time; with the embedded engine, this one. */
export function createSingleJobs({ store, clock, config, options }: JobParts): SingleJobs {
  return new SingleJobs({
    nodes: store.nodes,
    mayDo: (job) => mayDo(job, rolesOf(config)),
    clock,
    logger: options.logger,
  });
}

/** A node that sends to destinations knows how they do, and has a way out to the receivers of alerts. */
function mayDo(job: SingleJob, roles: readonly NodeRole[]): boolean {
  if (job === 'users') return roles.includes('users');
  return job !== 'alerts' || roles.includes('deliver');
}

/** The part of the dispatcher that nodes have to do with. */
type NodeDispatcher = Pick<
  Dispatcher,
  'forget' | 'lookAtDisk' | 'shareWith' | 'drop' | 'requestsEnded' | 'redact'
>;

interface NodeParts extends JobParts {
  readonly store: Pick<ProgramStore, 'nodes'> & {
    readonly queue: Pick<ProgramStore['queue'], 'recoverOrphans'>;
  };
  readonly settings: Pick<SettingsService, 'reload'>;
  readonly dispatcher: NodeDispatcher;
  readonly ingest: Pick<IngestService, 'answered'>;
  readonly regulations: Pick<RegulationService, 'reload'>;
  readonly jobs: Pick<SingleJobs, 'lost' | 'start' | 'stop'>;
  readonly reports: Pick<ReportService, 'forget'>;
}

/**
 * Joins the nodes: from here on this node follows the others, and takes its part of the jobs that one node
 * does.
 */
export function joinNodes(parts: NodeParts): { stop(): Promise<void> } {
  const { store, clock, options, settings, dispatcher, ingest, regulations, jobs, reports } = parts;
  const { nodes } = store;
  if (nodes === undefined) return { stop: () => jobs.stop() };
  const { logger } = options;
  nodes.follow({
    lost: async () => {
      await Promise.all([dispatcher.forget(), jobs.lost(), ingest.answered()]);
    },
    catchUp: () => regulations.reload(),
    joined: () => {
      dispatcher.lookAtDisk().catch((error: unknown) => logger.warn({ error }, 'backlog.not_read'));
    },
    awaited: () => shared.hurry(),
  });
  const shared = new SharedState({
    nodes,
    reloadSettings: settings.reload,
    reloadSuppressions: () => regulations.reload(),
    callsStored: () => ingest.answered(),
    dropErased: (positions) => {
      dispatcher.drop(positions);
      reports.forget(mentionsAnybody);
    },
    erasedForgotten: async () => {
      await dispatcher.requestsEnded(REQUEST_LIMIT);
      await dispatcher.redact(mentionsAnybody);
    },
    adopt: () => store.queue.recoverOrphans(),
    lookAtDisk: async () => {
      dispatcher.shareWith(shareAmong(await nodes.list()));
      await dispatcher.lookAtDisk();
    },
    clock,
    logger,
  });
  shared.start();
  jobs.start();
  return {
    stop: async () => {
      await shared.stop();
      await jobs.stop();
    },
  };
}

/** The part of this node in the limits of destinations: those of every node that delivers are the same. */
function shareAmong(nodes: readonly NodeStatus[]): NodeShare {
  const delivering = nodes.filter(({ roles, leaseLeft }) => leaseLeft > 0 && roles.includes('deliver'));
  const place = delivering.findIndex(({ isSelf }) => isSelf);
  return place < 0 ? WHOLE_SHARE : { nodes: delivering.length, place };
}

/**
 * True for every text: only the node that erased events knows whose they were, so all texts that may be of
 * them are dropped.
 */
const mentionsAnybody = (): boolean => true;

interface WaitDependencies extends Pick<JobParts, 'clock'> {
  readonly store: Pick<ProgramStore, 'nodes'>;
  readonly ingest: Pick<IngestService, 'answered'>;
}

/** The memory of the deliveries of all nodes, for a deletion. Other nodes are told through the store. */
export function deliveriesOfAll(
  { store: { nodes }, ingest, clock }: WaitDependencies,
  dispatcher: Pick<Dispatcher, 'drop' | 'parked' | 'redact' | 'requestsEnded'>,
): MemoryOfDeliveries {
  if (nodes === undefined) return dispatcher;
  /** Slices of a deletion, which may have thousands. */
  const erased: (readonly Position[])[] = [];
  return {
    drop: (positions) => {
      dispatcher.drop(positions);
      erased.push(positions);
    },
    parked: (lane, at) => dispatcher.parked(lane, at),
    redact: (mentions) => dispatcher.redact(mentions),
    requestsEnded: async (limit, checkStop) => {
      // As on the other nodes: a call may come into memory after its event was erased.
      await ingest.answered();
      for (const positions of erased) dispatcher.drop(positions);
      await Promise.all([
        dispatcher.requestsEnded(limit),
        acknowledgedByAll(
          'erasures',
          { earlierVersion: KNOWN_EVERYWHERE + limit, gone: limit },
          { nodes, clock, checkStop },
        ),
      ]);
      erased.length = 0;
    },
  };
}

/**
 * Within this time a node of an earlier version knows of a suppression and of an erasure, and has stored what
 * it took before.
 */
const KNOWN_EVERYWHERE: Duration = 4 * SECOND;

/** Resolves when every call that any node took before is stored, or never will be. */
export async function callsStored(
  { store: { nodes }, ingest, clock }: WaitDependencies,
  checkStop: () => void,
): Promise<void> {
  if (nodes !== undefined) {
    const limits = { earlierVersion: KNOWN_EVERYWHERE, gone: REQUEST_LIMIT };
    await acknowledgedByAll('suppressions', limits, { nodes, clock, checkStop });
  }
  await ingest.answered();
}
