import { lstatSync, readdirSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { readTextFile } from '../text-file.ts';
import { readPublicApi } from './public-api.ts';
import { requestOfFile, StoredAnswers } from './public-api-files.ts';
import { readRudderStack } from './rudderstack.ts';
import { type NamedText, readGitSync, readTerraformState } from './terraform.ts';
import { fieldOf, fieldsOf, jsonIn, type OtherThing, type Workspace } from './workspace.ts';

/** Files and folders, by their absolute paths. */
export interface ExportInput {
  readonly paths: readonly string[];
}

/** Thrown where nothing can be made of the input at all. */
export class UnreadableExport extends Error {}

/** Most files of a folder: whoever names another folder by mistake is told. */
const MAX_FILES = 100_000;

const KNOWN =
  'answers of the Public API, a folder of Git Sync, a state of Terraform (terraform show -json), or a configuration of RudderStack';

interface Found {
  readonly path: string;
  /** Path below the folder that was named, or the name of the file. */
  readonly name: string;
  /** The file itself was named, and not a folder that it is in. */
  readonly isNamed: boolean;
}

/** Reads an export, of whichever kind it is. Throws an `UnreadableExport`. */
export async function workspacesIn({ paths }: ExportInput, none: readonly string[] = []): Promise<Workspace> {
  const files = paths.flatMap(filesIn);
  if (files.some(({ name }) => /\.tf$/i.test(name))) return gitSyncIn(files);
  const answers = new StoredAnswers();
  const others: OtherThing[] = [];
  let count = 0;
  for (const file of files) {
    if (!/\.json$/i.test(file.name) && !file.isNamed) {
      others.push({ kind: 'file', id: file.name, reason: 'is neither JSON nor .tf, and was not read' });
      continue;
    }
    const text = readTextFile(file.path);
    const value = typeof text === 'string' ? jsonIn(text.replace(/^\ufeff/, '')) : undefined;
    if (value === undefined) {
      const reason = typeof text === 'string' ? 'is not JSON' : text.reason;
      if (files.length === 1) throw new UnreadableExport(`${file.path} ${reason}: it must be ${KNOWN}`);
      answers.addFailure(requestOfFile(file.name), reason);
      continue;
    }
    const whole = readTerraformState(value) ?? readRudderStack(value);
    if (whole !== undefined) {
      if (files.length === 1) return whole;
      throw new UnreadableExport(`${file.path} is an export of its own: name it alone`);
    }
    count += addAnswers(answers, file.name, value);
  }
  if (count === 0) throw new UnreadableExport(`nothing in ${paths.join(', ')} is known: it must be ${KNOWN}`);
  const workspace = await readPublicApi(answers, none);
  return { ...workspace, others: [...workspace.others, ...others] };
}

/** One answer, or many in a file: `{"requests": {"GET /sources": …}}`. Returns how many there are. */
function addAnswers(answers: StoredAnswers, name: string, value: unknown): number {
  const requests = fieldOf(value, 'requests');
  if (requests === undefined) {
    answers.add(requestOfFile(name), value);
    return fieldOf(value, 'data') === undefined ? 0 : 1;
  }
  const listed = Object.entries(fieldsOf(requests));
  for (const [request, body] of listed) answers.add(request, body);
  return listed.length;
}

function gitSyncIn(files: readonly Found[]): Workspace {
  const texts: NamedText[] = [];
  const others: OtherThing[] = [];
  for (const { path, name } of files) {
    const text = /\.tf$/i.test(name) ? readTextFile(path) : undefined;
    if (typeof text === 'string') texts.push({ path: name, text });
    else if (text === undefined)
      others.push({ kind: 'file', id: name, reason: 'is no .tf file, and was not read' });
    // An empty block is none: the reader says that the file cannot be read, and holds back what it is about.
    else texts.push({ path: name, text: '{' });
  }
  const workspace = readGitSync(texts);
  return { ...workspace, others: [...workspace.others, ...others] };
}

/** Files below a path, sorted, without hidden folders and symbolic links. */
function filesIn(path: string): Found[] {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new UnreadableExport(`${path} does not exist`);
  if (!stat.isDirectory()) return [{ path, name: basename(path), isNamed: true }];
  const found: Found[] = [];
  const folders = [path];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const own = join(folder, entry.name);
      if (entry.name.startsWith('.')) continue;
      if (entry.isDirectory()) folders.push(own);
      else if (entry.isFile()) found.push({ path: own, name: relative(path, own), isNamed: false });
    }
    if (found.length > MAX_FILES) throw new UnreadableExport(`${path} has more than ${MAX_FILES} files`);
  }
  return found.sort((one, other) => (one.name < other.name ? -1 : 1));
}
