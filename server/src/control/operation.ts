import type * as z from 'zod';
import type { Role } from '../model/role.ts';
import type { ProblemCode } from './problem.ts';

/** One thing that the control API can be asked, and all that its description says of it. */
export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/api/v1/`; `:name` stands for one segment. */
  readonly path: string;
  /** What it does, as a sentence without its full stop. */
  readonly summary: string;
  /** Who has less is refused. */
  readonly role: Role;
  /** Of the query; none is looked at when absent. */
  readonly query?: z.ZodType;
  /** Of the body; none is looked at when absent. */
  readonly body?: z.ZodType;
  /** Of the body as it is described, where `body` leaves the checking to something else. */
  readonly described?: z.ZodType;
  /** Of the answer; absent where there is none (204). */
  readonly answer?: z.ZodType;
  /** Of what is answered 200 instead of `answer`, given as a `DryRun`, when the request only asks what would be done. */
  readonly dryRun?: z.ZodType;
  /** Of the answer; 200 when absent, 204 where there is none. */
  readonly status?: 200 | 201;
  /** What can be wrong, beside what can be wrong with every request. */
  readonly problems?: readonly ProblemCode[];
  /** It answers with server-sent events for as long as the client stays; `answer` is the data of one of them. */
  readonly isStream?: boolean;
  /** It answers with an ETag, or heeds If-Match. */
  readonly isTagged?: boolean;
  /** It neither reads nor writes the store, so it works while that is broken. */
  readonly isInMemory?: boolean;
  /** Gives a value that is answered as JSON, a `Streamed`, or nothing; throws a `Problem`. */
  readonly run: (input: Input) => Promise<object | undefined>;
}

export interface Input {
  /** What stood for each `:name` of the path, decoded. */
  readonly names: Readonly<Record<string, string>>;
  /** As `query` of the operation has parsed it. */
  readonly query: unknown;
  /** As `body` of the operation has parsed it. */
  readonly body: unknown;
  /** The name of the token. */
  readonly by: string;
  /** The If-Match header. */
  readonly ifMatch: string | undefined;
}

/** What would be done; see `Operation.dryRun`. */
export class DryRun {
  readonly value: object;

  constructor(value: object) {
    this.value = value;
  }
}

/** An answer with its ETag. */
export class Tagged {
  readonly value: object;
  readonly tag: string;

  constructor(value: object, tag: string) {
    this.value = value;
    this.tag = tag;
  }
}

/** An operation whose input has the types of its schemas. */
export function operation<Query extends z.ZodType, Body extends z.ZodType>(
  one: Omit<Operation, 'query' | 'body' | 'run'> & {
    readonly query?: Query;
    readonly body?: Body;
    readonly run: (
      input: Omit<Input, 'query' | 'body'> & {
        readonly query: z.output<Query>;
        readonly body: z.output<Body>;
      },
    ) => Promise<object | undefined>;
  },
): Operation {
  const { run, ...rest } = one;
  return {
    ...rest,
    run: (input) =>
      run({ ...input, query: input.query as z.output<Query>, body: input.body as z.output<Body> }),
  };
}
