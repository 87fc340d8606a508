import { useQuery } from '@tanstack/react-query';
import { stringify } from 'yaml';
import { configQuery } from '../api/queries.ts';
import { type RecordList, useIsOfFile } from '../api/records.ts';
import { CodeBlock } from '../ui/code-block.tsx';
import { Notice } from '../ui/empty-state.tsx';

interface RecordName {
  readonly list: RecordList;
  readonly name: string;
}

/** Mark beside the title of a record that is in the configuration file. */
export function FileMark({ list, name }: RecordName) {
  if (!useIsOfFile(list, name)) return null;
  return (
    <span className="tok" title="The configuration file has it: the next start makes it what the file says.">
      of the configuration file
    </span>
  );
}

/**
 * Notice above the form of a record that is in the configuration file: how long a change lasts, and how to
 * keep it.
 */
export function FileNotice({ list, name }: RecordName) {
  const isOfFile = useIsOfFile(list, name);
  const { data: config } = useQuery({ ...configQuery, enabled: isOfFile });
  if (!isOfFile) return null;
  const record = config?.[list].find((one) => one['name'] === name);
  return (
    <Notice tone="warn">
      <p>
        The configuration file has this record, and the next start makes it what the file says. What you save
        here holds until then; to keep it, put it into the file too.
      </p>
      {record !== undefined && (
        <details>
          <summary className="link">As it is now, for the file</summary>
          <CodeBlock code={fileText(list, record)} label="The record as the configuration file writes it" />
          <p className="hint">Where it says {SECRET}, leave what your file has.</p>
        </details>
      )}
    </Notice>
  );
}

/** The end of a message about a saved change, for a record of the configuration file; also on a button. */
export function useUntilNextStart({ list, name }: RecordName): string {
  return useIsOfFile(list, name) ? ' until the next start' : '';
}

/**
 * Placeholder of a secret. A start refuses it, because no variable has this name, so it is never taken for
 * the secret.
 */
const SECRET = '$' + '{SECRET_OF_THE_FILE}';

/** A record as the configuration file writes it. */
function fileText(list: RecordList, record: unknown): string {
  return stringify({ [list]: [withoutMasks(record)] }, { lineWidth: 0 });
}

function withoutMasks(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutMasks);
  if (typeof value !== 'object' || value === null) return value;
  if ('set' in value && value.set === true) return SECRET;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutMasks(one)]));
}
