import { resolve } from 'node:path';
import { ConfigError, type FileRecords, readRecords } from '@millrace/server/config';
import {
  askControl,
  type ControlAddress,
  type ControlFlags,
  type ControlReply,
  controlAddress,
} from './control-api.ts';
import { memberEffects } from './member-effects.ts';
import { paintFor } from './paint.ts';
import { type Plan, planReport, sumOf } from './plan-report.ts';
import { canBeAsked, isConfirmed } from './question.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { STANDARD_INPUT } from './standard-input.ts';
import { readTextOf } from './text-file.ts';

export interface PlanOptions extends ControlFlags {
  readonly file: string;
  readonly prune?: boolean;
  readonly json?: boolean;
}

export interface ApplyOptions extends PlanOptions {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** `millrace plan -f FILE`: shows the changes that applying a file would make. Changes nothing. */
export async function plan(options: PlanOptions, context: RunContext): Promise<ExitCode> {
  const request = await readRequest(options, context);
  if (request === undefined) return 2;
  const planned = await put(request, { dryRun: true }, context);
  if (planned === undefined) return 1;
  show(planned, options, context);
  if (!options.json) await tellEffects(request, planned.plan, context.out);
  warn(request, planned.plan, context);
  return 0;
}

/** Adds what happens to the members of audiences, which takes a look at all stored events. */
async function tellEffects(
  { address }: PlanRequest,
  planned: Plan,
  out: Pick<RunContext['out'], 'write'>,
): Promise<void> {
  for (const line of await memberEffects(planned, address)) out.write(`${line}.\n`);
}

/**
 * `millrace apply -f FILE`: changes the sources and destinations of a running server to those of a file, all
 * or none. spec/contract.md, "Verbs that change".
 */
export async function apply(options: ApplyOptions, context: RunContext): Promise<ExitCode> {
  if (options.dryRun) return await plan(options, context);
  const request = await readRequest(options, context);
  if (request === undefined) return 2;
  let confirm = options.yes === true;
  let shown: string | undefined;
  if (!confirm && canBeAsked(context)) {
    const planned = await put(request, { dryRun: true }, context);
    if (planned === undefined) return 1;
    const { changes } = planned.plan;
    if (changes.length > 0) {
      context.err.write(planReport(planned.plan, paintFor(context.err, context.env)));
      await tellEffects(request, planned.plan, context.err);
      shown = JSON.stringify(changes);
      if (!(await isConfirmed(`Change ${request.address.url.origin} so?`, context))) {
        context.err.write('millrace: nothing was changed.\n');
        return 1;
      }
      confirm = true;
    }
  }
  const done = await put(request, { confirm }, context);
  if (done === undefined) return 1;
  const isAsShown = shown === JSON.stringify(done.plan.changes);
  if (shown !== undefined && !isAsShown)
    context.err.write(
      'millrace: somebody else changed the server meanwhile; what was changed now is this:\n',
    );
  // The user has just read the full plan.
  if (isAsShown && context.out.isTTY && !options.json) context.out.write(`${sumOf(done.plan)}\n`);
  else show(done, options, context);
  warn(request, done.plan, context);
  return 0;
}

interface PlanRequest {
  readonly address: ControlAddress;
  readonly file: FileRecords;
  readonly path: string;
  readonly prune: boolean;
}

/** Returns `undefined` after printing the errors. */
async function readRequest(options: PlanOptions, context: RunContext): Promise<PlanRequest | undefined> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return undefined;
  }
  const path = options.file === STANDARD_INPUT ? 'standard input' : options.file;
  const file = await recordsIn(options.file, path, context);
  if (file === undefined) return undefined;
  if (file.otherKeys.length > 0) {
    context.err.write(
      `millrace: ${file.otherKeys.join(', ')} of ${path}: read by millrace start, not sent to a running server.\n`,
    );
  }
  return { address, file, path, prune: options.prune === true };
}

async function recordsIn(file: string, path: string, context: RunContext): Promise<FileRecords | undefined> {
  const text = await readTextOf(file, context.in);
  if (typeof text !== 'string') {
    const name = file === STANDARD_INPUT ? path : resolve(path);
    context.err.write(`millrace: the configuration file ${name} ${text.reason}.\n`);
    return undefined;
  }
  try {
    return readRecords({ path, text }, context.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    context.err.write(`millrace: this file cannot be applied:\n${error.message}\n`);
    return undefined;
  }
}

interface Answered {
  readonly plan: Plan;
  readonly text: string;
}

/** Returns `undefined` after printing the reason. */
async function put(
  { address, file, path, prune }: PlanRequest,
  { dryRun = false, confirm = false }: { readonly dryRun?: boolean; readonly confirm?: boolean },
  context: RunContext,
): Promise<Answered | undefined> {
  const reply = await askControl(address, 'config', {
    method: 'PUT',
    query: {
      dryRun: dryRun ? 'true' : undefined,
      prune: prune ? 'true' : undefined,
      confirm: confirm ? 'true' : undefined,
    },
    body: {
      sources: file.sources,
      destinations: file.destinations,
      audiences: file.audiences,
      traits: file.traits,
      alerts: file.alerts,
    },
  });
  if (reply.kind === 'failed') {
    context.err.write(`millrace: ${refusal(reply, file, path)}\n`);
    return undefined;
  }
  if (isPlan(reply.value)) return { plan: reply.value, text: reply.text };
  context.err.write(
    `millrace: the server at ${address.url.origin} speaks of its configuration in another way: is it of this version?\n`,
  );
  return undefined;
}

/** The server's errors in the file, with line numbers where known. */
function refusal(
  { message, problem }: Extract<ControlReply, { kind: 'failed' }>,
  file: FileRecords,
  path: string,
): string {
  if (problem?.code === 'invalid_parameters') {
    const lines = problem.errors.map(({ path: at, message: said, place: inText }) =>
      file.lineAt(inFile(at), said, inText),
    );
    const more = problem.truncated ? ['There are more.'] : [];
    return [`the server refuses ${path}, and nothing was changed:`, ...lines, ...more].join('\n');
  }
  if (problem?.code === 'confirmation_needed') {
    const owed = problem.errors.map(
      (fault) => `  ${fault.path.replace(/^destinations /, 'destination ')} ${fault.message}`,
    );
    return [
      'nothing was changed, because this disconnects what something is still owed to:',
      ...owed,
      'Wait until it has been delivered (millrace status), or apply with --yes: a destination that is removed loses it to ' +
        'its dead letters, one that is disabled keeps it until it is enabled.',
    ].join('\n');
  }
  return `${message}.`;
}

function show({ plan, text }: Answered, { json }: PlanOptions, context: RunContext): void {
  context.out.write(json ? `${text}\n` : planReport(plan, paintFor(context.out, context.env)));
}

function warn({ file }: PlanRequest, { warnings = [] }: Plan, context: RunContext): void {
  for (const { path, message } of warnings)
    context.err.write(`millrace: warning: ${file.lineAt(inFile(path), message)}\n`);
}

/** Translates a path of the request body into a path of the file. */
function inFile(path: string): string {
  return path.replace(/^body\.?/, '');
}

/** Checks only enough to recognise another program or version. */
function isPlan(value: unknown): value is Plan {
  return (
    typeof value === 'object' &&
    value !== null &&
    'changes' in value &&
    Array.isArray(value.changes) &&
    'kept' in value &&
    Array.isArray(value.kept) &&
    'disconnects' in value &&
    Array.isArray(value.disconnects)
  );
}
