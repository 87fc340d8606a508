import { Client, type Failure } from '@millrace/client';
import { visible } from '@millrace/server/visible-text';
import type { ExitCode, RunContext } from './run-context.ts';
import { sendFile } from './send-file.ts';
import { whyUnreachable } from './unreachable.ts';

export interface SendOptions {
  /** The argument of the verb: a type of call. */
  readonly type: string | undefined;
  readonly writeKey: string;
  readonly endpoint?: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly previousId?: string;
  readonly groupId?: string;
  readonly event?: string;
  readonly name?: string;
  readonly category?: string;
  /** Parsed JSON objects. */
  readonly properties?: object;
  readonly traits?: object;
  readonly context?: object;
  readonly messageId?: string;
  readonly timestamp?: string;
  /** A file of calls, in place of a type and its fields. */
  readonly file?: string;
  readonly progress?: string;
  readonly rejects?: string;
}

const DEFAULT_ENDPOINT = 'http://127.0.0.1:8080';

/**
 * Milliseconds that a person at a terminal waits. A call without an answer by then is reported as a failure.
 */
const PATIENCE_MS = 10_000;

/**
 * `millrace send track --write-key K …`: sends one call with the client library, as any program would. Prints
 * its messageId once the server has stored it. Ends with 1 when the call was refused or could not be sent.
 * spec/contract.md, "Verbs that send".
 */
export async function send(options: SendOptions, context: RunContext): Promise<ExitCode> {
  const { writeKey, file, progress, rejects, ...message } = options;
  const endpoint = options.endpoint ?? (context.env['MILLRACE_URL'] || DEFAULT_ENDPOINT);
  const mistake = mistakeIn(options);
  if (mistake !== undefined) {
    context.err.write(`millrace: ${mistake}.\n`);
    return 2;
  }
  const unreachable = await whyUnreachable(endpoint);
  if (unreachable !== undefined) {
    context.err.write(`millrace: ${unreachable}.\n`);
    return 1;
  }
  if (file !== undefined) return await sendFile({ file, writeKey, endpoint, progress, rejects }, context);
  const { endpoint: _, ...call } = message;
  return await sendOne(call, { writeKey, endpoint }, context);
}

function mistakeIn({ type, file, progress, rejects, writeKey: _, endpoint: __, ...fields }: SendOptions) {
  if (file === undefined) {
    if (type === undefined) return 'say what to send: a type of call, or --file with a file of calls';
    return progress === undefined && rejects === undefined
      ? undefined
      : '--progress and --rejects need --file';
  }
  const alone = type === undefined && Object.values(fields).every((field) => field === undefined);
  return alone ? undefined : 'with --file, type and fields of the calls are in the file';
}

async function sendOne(
  call: object,
  { writeKey, endpoint }: { readonly writeKey: string; readonly endpoint: string },
  context: RunContext,
): Promise<ExitCode> {
  let client: Client;
  let failure: Failure | undefined;
  try {
    client = new Client(writeKey, {
      ...{ endpoint, flushAt: 1, closeTimeout: PATIENCE_MS, logger: () => {} },
      onSuccess: ({ messageId }) => context.out.write(`${messageId}\n`),
      onFailure: (one) => {
        failure = one;
      },
    });
  } catch (error) {
    context.err.write(`millrace: ${error instanceof Error ? error.message : String(error)}.\n`);
    return 2;
  }
  // The library checks which fields belong to which type.
  client.send(call as Parameters<Client['send']>[0]);
  await client.close();
  if (failure === undefined) return 0;
  // The library refused the call before it was sent: the input is wrong.
  if (!failure.accepted) {
    context.err.write(`millrace: the call cannot be sent ${whyNot(failure)}.\n`);
    return 2;
  }
  const unreachable = failure.status === undefined ? await whyUnreachable(endpoint) : undefined;
  context.err.write(
    `millrace: ${unreachable ?? `${new URL(endpoint).origin} did not store the call ${whyNot(failure)}`}.\n`,
  );
  return 1;
}

/**
 * The reason why a call was not stored. When nobody waits any longer the library is closed; then its last
 * answer is the reason, and not that.
 */
export function whyNot({ code, message, tries }: Pick<Failure, 'code' | 'message' | 'tries'>): string {
  const said = visible(message).replace(/\.$/, '');
  const answer = /\((.*)\)$/.exec(said)?.[1];
  if (code !== 'closed' || answer === undefined) return `(${code}): ${said}`;
  return `in ${PATIENCE_MS / 1000} s and ${tries ?? 1} tries; the last answer: ${answer.replace(/\.$/, '')}`;
}
