import type * as z from 'zod';

/** One thing that the control API can be asked. */
export interface Operation {
  readonly method: 'GET' | 'POST';
  /** Below `/api/v1/`; `:name` stands for one segment. */
  readonly path: string;
  /** Of the query; none is looked at when absent. */
  readonly query?: z.ZodType;
  /** Of the body; none is looked at when absent. */
  readonly body?: z.ZodType;
  /** Gives a value that is answered as JSON; throws a `Problem`. */
  readonly run: (input: Input) => Promise<object>;
}

export interface Input {
  /** What stood for each `:name` of the path, decoded. */
  readonly names: Readonly<Record<string, string>>;
  /** As `query` of the operation has parsed it. */
  readonly query: unknown;
  /** As `body` of the operation has parsed it. */
  readonly body: unknown;
}

/** An operation whose input has the types of its schemas. */
export function operation<Query extends z.ZodType, Body extends z.ZodType>(one: {
  readonly method: Operation['method'];
  readonly path: string;
  readonly query?: Query;
  readonly body?: Body;
  readonly run: (input: {
    readonly names: Readonly<Record<string, string>>;
    readonly query: z.output<Query>;
    readonly body: z.output<Body>;
  }) => Promise<object>;
}): Operation {
  const { run, ...rest } = one;
  return {
    ...rest,
    run: ({ names, query, body }) =>
      run({ names, query: query as z.output<Query>, body: body as z.output<Body> }),
  };
}
