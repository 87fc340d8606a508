import * as z from 'zod';
import { urlProblem } from '../destinations/webhooks/settings.ts';
import { findLimitViolation, MAX_ENTRIES } from '../model/input-limits.ts';
import { ConfigError, problemsOfIssues } from './errors.ts';
import { recordName } from './names.ts';
import { filePath, SHARED_KEYS } from './schema.ts';
import { type ConfigProblem, type Environment, readConfigFile } from './yaml-source.ts';

/** How to write one, for every message about a cell that is not whole. */
const CELL_RULE = 'must be a mapping of name, url, and token or tokenFile';
const LIST_RULE = 'must be a list of cells, each with name, url, and token or tokenFile';
const FILE_RULE = 'must be a mapping: write cells: and the list of cells below it';
const TOKEN_RULE =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference, as it is written in the file.
  'must have a token, as in token: ${EAST_TOKEN}, which reads the environment, or a tokenFile, the path of a file that holds it';
const URL_RULE =
  'must be the http or https URL of the cell, such as https://east.example.com, without a query';

const cellSchema = z
  .strictObject(
    {
      name: recordName(),
      url: z.string(URL_RULE).refine((url) => urlProblem(url) === undefined && !url.includes('?'), {
        error: URL_RULE,
        params: { found: true },
      }),
      token: SHARED_KEYS.adminToken.exactOptional(),
      tokenFile: filePath().exactOptional(),
    },
    CELL_RULE,
  )
  .superRefine(({ token, tokenFile }, context) => {
    if (token === undefined && tokenFile === undefined)
      context.addIssue({ code: 'custom', message: TOKEN_RULE });
    if (token === undefined || tokenFile === undefined) return;
    const message = 'must be left out where there is a token: one of the two';
    context.addIssue({ code: 'custom', message, path: ['tokenFile'] });
  });

const cellsFileSchema = z.strictObject(
  { cells: z.array(cellSchema, LIST_RULE).min(1, LIST_RULE).superRefine(refuseTwins) },
  FILE_RULE,
);

type WrittenCell = z.output<typeof cellSchema>;

/** The cells of an installation. */
export interface CellsFile {
  readonly cells: readonly WrittenCell[];
  /** Whether some token stands in the file itself, and not in the environment or in a file of its own. */
  readonly hasTokens: boolean;
  /** A problem with a value, with its place in the file. */
  problemAt(path: string, message: string): ConfigProblem;
}

/**
 * Reads the file that names the cells of an installation: only the command line needs it, a server knows no other. References are
 * replaced as in the configuration file. Throws a `ConfigError` with the problems.
 */
export function readCells(
  file: { readonly path: string; readonly text: string },
  env: Environment,
): CellsFile {
  const read = { ...readConfigFile(file, env), path: file.path };
  const excess = findLimitViolation(read.value);
  if (excess !== undefined) {
    const { at } = read.places.get('cells') ?? {};
    throw new ConfigError([{ file: file.path, ...at, path: 'cells', message: excess.message }]);
  }
  const checked = cellsFileSchema.safeParse(read.value);
  // Where the syntax is wrong, there is no value to find fault with.
  const isReadable = read.problems.every(({ path }) => path !== '');
  const problems = [
    ...read.problems,
    ...(isReadable ? problemsOfIssues(checked.error?.issues ?? [], read, cellsFileSchema) : []),
  ];
  if (!checked.success || problems.length > 0) throw new ConfigError(problems);
  return {
    cells: checked.data.cells,
    hasTokens: checked.data.cells.some(
      ({ token }, nth) =>
        token !== undefined && read.places.get(`cells[${nth}].token`)?.written === undefined,
    ),
    problemAt: (path, message) => ({ file: file.path, ...read.places.get(path)?.at, path, message }),
  };
}

/** The sums would count a cell twice that stands in the list twice, and a name must say which cell is meant. */
function refuseTwins(cells: readonly WrittenCell[], context: z.RefinementCtx): void {
  const seen = new Map<string, number>();
  for (const [place, { name, url }] of cells.slice(0, MAX_ENTRIES).entries()) {
    for (const [key, value] of [
      ['name', name],
      ['url', URL.parse(url)?.href.replace(/\/+$/, '') ?? url],
    ] as const) {
      const first = seen.get(`${key} ${value}`);
      if (first === undefined) seen.set(`${key} ${value}`, place);
      else {
        const message = `is also the ${key} of cells[${first}]: each cell stands here once`;
        context.addIssue({ code: 'custom', message, path: [place, key] });
      }
    }
  }
}
