import type { FileRemarks } from '@millrace/server/config';
import { translateComputations } from './computations.ts';
import { needOfNetwork, translateDestinations } from './destinations.ts';
import { PRODUCT, WITH_SHAPING } from './product.ts';
import type { Report } from './report.ts';
import { translateSources } from './sources.ts';
import { keptText, type ListName, Translation, type WrittenRecord } from './translation.ts';
import type { ExportedFunction, SuppressedUser, Workspace } from './workspace.ts';

/** All that comes of a workspace: records, their comments, the report, and what goes into files beside. */
export interface Translated {
  readonly records: Readonly<Record<ListName, readonly WrittenRecord[]>>;
  /** The same, each behind all that it names. */
  readonly inOrder: Translation['records'];
  readonly remarks: Omit<FileRemarks, 'heading'>;
  readonly report: Report;
  /** Names of all variables that the records read. */
  readonly variables: readonly string[];
  /** Users to suppress before history is imported: a list for each request. */
  readonly suppressed: readonly SuppressedList[];
  readonly trackingPlans: readonly unknown[];
}

export interface SuppressedList {
  readonly isAnonymous: boolean;
  readonly ids: readonly string[];
}

/** `env`: the environment, which may have the values that the export does not have. */
export function translate(
  workspace: Workspace,
  env: Readonly<Record<string, string | undefined>>,
): Translated {
  const translation = new Translation(env);
  if (workspace.id !== undefined) {
    const reasons = ['there are no workspaces here: a server has one set of records'];
    translation.tell('workspace', { id: workspace.id, name: workspace.name }, 'not', { reasons });
  }
  for (const { id, reason } of workspace.unread)
    translation.tell('answer', { id }, 'not', { reasons: [reason] });
  const sources = translateSources(workspace, translation);
  translateComputations(workspace, translation);
  translateDestinations(workspace, sources, translation);
  translateShaping(workspace, translation);
  for (const plan of workspace.trackingPlans) {
    const reasons = ['kept as a file: there are no tracking plans here'];
    translation.tell('trackingPlan', plan, 'not', { reasons });
  }
  const suppressed = suppressedLists(workspace.suppressed, translation);
  for (const { kind, id, name, outcome = 'not', reason } of workspace.others)
    translation.tell(kind, name === undefined ? { id } : { id, name }, outcome, { reasons: [reason] });
  if (workspace.origin === 'segment') {
    const reasons = ['no API returns consent categories: to be typed in as consent of each destination'];
    translation.tell('consent', { id: '*' }, 'not', { reasons });
  }
  for (const text of workspace.untold) translation.asked.push({ text });
  const { records: inOrder, before, end, things, asked } = translation;
  const of = (name: ListName) => inOrder.filter(({ list }) => list === name).map(({ record }) => record);
  return {
    records: {
      sources: of('sources'),
      destinations: of('destinations'),
      audiences: of('audiences'),
      traits: of('traits'),
    },
    inOrder,
    remarks: { before, end },
    report: { things, asked },
    variables: translation.variables,
    suppressed,
    trackingPlans: workspace.trackingPlans.map(({ raw }) => raw),
  };
}

/** Transformations and functions, whose texts are kept for the day on which they can be used. */
function translateShaping(
  { transformations, functions, functionInstances }: Workspace,
  translation: Translation,
): void {
  for (const one of transformations) {
    const isMissing = one.isTextMissing === true;
    const reason = isMissing
      ? 'its code is not in the file'
      : `${WITH_SHAPING}${one.enabled ? '' : '; disabled there'}`;
    translation.tell('transformation', one, 'not', { reasons: [reason] });
    if (!isMissing) translation.end.push(...keptText(`transformation ${one.id}`, one.raw));
  }
  for (const one of functions) {
    translation.tell('function', one, 'not', { reasons: [reasonOfFunction(one)] });
    translation.end.push(...keptText(`function ${one.id} (${one.resourceType})`, one.code));
  }
  for (const one of functionInstances) {
    const reason = `${WITH_SHAPING}: at work in front of ${one.integrationId}${one.enabled ? '' : '; disabled there'}`;
    translation.tell('functionInstance', one, 'not', { reasons: [reason] });
  }
}

function reasonOfFunction({ code, resourceType }: ExportedFunction): string {
  const need = needOfNetwork(code);
  if (need !== undefined) return `needs the network: ${need}`;
  return resourceType === 'SOURCE' ? 'there are no functions of sources here' : WITH_SHAPING;
}

/** Lists of users, each as long as a request may be. Ids of other kinds mean nobody here. */
function suppressedLists(users: readonly SuppressedUser[], translation: Translation): SuppressedList[] {
  const known = { USER_ID: new Set<string>(), ANONYMOUS_ID: new Set<string>() };
  for (const { id, idType } of users) {
    const kind = idType === '' ? 'USER_ID' : idType;
    const list = Object.hasOwn(known, kind) ? known[kind as keyof typeof known] : undefined;
    const isUsable = id !== '' && id.length <= MAX_ID_LENGTH && id.isWellFormed();
    if (list === undefined || !isUsable) {
      const reason =
        list === undefined ? `${kind}: suppression here is of users and visitors` : 'is no id here';
      translation.tell('suppression', { id }, 'not', { reasons: [reason] });
    } else if (!list.has(id)) {
      list.add(id);
      translation.tell('suppression', { id }, 'taken');
    }
  }
  return [
    ...chunks([...known.USER_ID]).map((ids) => ({ isAnonymous: false, ids })),
    ...chunks([...known.ANONYMOUS_ID]).map((ids) => ({ isAnonymous: true, ids })),
  ];
}

/** Longest id in UTF-16 units. */
const MAX_ID_LENGTH = 1024;

function chunks(ids: readonly string[]): string[][] {
  const lists: string[][] = [];
  for (let from = 0; from < ids.length; from += PRODUCT.maxSubjects)
    lists.push(ids.slice(from, from + PRODUCT.maxSubjects));
  return lists;
}
