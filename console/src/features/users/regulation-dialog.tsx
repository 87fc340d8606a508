import { useNavigate } from '@tanstack/react-router';
import { useRef } from 'react';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Button, Field, Select } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Failure, Notice } from '../../ui/empty-state.tsx';
import { Check } from '../../ui/form-fields.tsx';
import { plural } from '../../ui/format.ts';
import { JsonSwitch } from '../../ui/json-switch.tsx';
import { toast } from '../../ui/toast.tsx';
import { foreseenText, leftOutIn } from './joined-ids.ts';
import { type RegulationType, useForesee, useRegulate } from './queries.ts';
import { isErasing, titleOf } from './receipt.ts';
import { confirmationOf, type SubjectText, subjectsOf, textOf } from './subjects.ts';
import { SubjectsList } from './subjects-list.tsx';

const TYPES: readonly { readonly value: RegulationType; readonly label: string }[] = [
  { value: 'SUPPRESS_WITH_DELETE', label: 'Delete, and store nothing new of them' },
  { value: 'DELETE_ONLY', label: 'Delete; new calls are stored again' },
  { value: 'SUPPRESS_ONLY', label: 'Store nothing new; what is stored stays' },
  { value: 'UNSUPPRESS', label: 'End a suppression' },
];

interface RegulationDialogProps {
  readonly initialIds: readonly string[];
  readonly initialType?: RegulationType;
  /** The ids are anonymous ids of visitors. */
  readonly isAnonymous?: boolean;
  readonly onClose: () => void;
}

/** The contents of the dialog: the action and the users. */
interface RegulationDraft extends SubjectText {
  /** True to include userIds that client sources alone have joined. */
  readonly confirm?: boolean;
  readonly type: RegulationType;
  readonly of: 'users' | 'visitors';
}

const WHOM = [
  { value: 'users', label: 'Users, by their userIds' },
  { value: 'visitors', label: 'Visitors without a userId, by their anonymous ids' },
];

function draftFor({
  initialIds,
  initialType = 'SUPPRESS_WITH_DELETE',
  isAnonymous = false,
}: RegulationDialogProps): RegulationDraft {
  return { type: initialType, of: isAnonymous ? 'visitors' : 'users', ...textOf(initialIds) };
}

/**
 * Dialog that deletes or suppresses users, or ends their suppression. Deleting cannot be undone, so it must
 * be confirmed by typing.
 */
export function RegulationDialog(props: RegulationDialogProps) {
  const blank = draftFor(props);
  const key = `regulations?${blank.type} ${blank.text}`;
  const { draft, put, forget } = useKeptForm<RegulationDraft>({ key, blank });
  const regulate = useRegulate();
  const navigate = useNavigate();
  const isDone = useRef(false);
  const { type, of, confirm = false } = draft;
  const isAnonymous = of === 'visitors';
  const { ids, mistake } = subjectsOf(draft);
  const [first = ''] = ids;
  const noun = isAnonymous ? 'visitor' : 'user';
  const title = titleOf({ type, subjects: ids.length }, noun);
  return (
    <ConfirmDialog
      title={title}
      action={title}
      // One user by its id; of many nobody would type all.
      typed={ids.length === 1 ? confirmationOf(first) : plural(ids.length, noun)}
      isDangerous={type !== 'UNSUPPRESS'}
      isReady={ids.length > 0}
      onConfirm={async () => {
        const { id } = await regulate.mutateAsync(requestOf(draft));
        forget();
        // The receipt takes the place of the page that the dialog is on.
        isDone.current = true;
        toast(`${title}: under way.`);
        await navigate({ to: '/users/deletions/$id', params: { id } });
      }}
      onClose={() => {
        forget();
        if (!isDone.current) props.onClose();
      }}
    >
      <div className="stack-s">
        <Field label="What is to be done">
          {(control) => (
            <Select
              {...control}
              value={type}
              options={TYPES}
              onChange={(value) => put({ ...draft, type: value as RegulationType })}
            />
          )}
        </Field>
        <Field label="Who is meant">
          {(control) => (
            <Select
              {...control}
              value={of}
              options={WHOM}
              onChange={(value) => put({ ...draft, of: value as RegulationDraft['of'] })}
            />
          )}
        </Field>
        <Field
          label={isAnonymous ? 'Anonymous ids, one a line' : 'UserIds, one a line'}
          hint="5,000 at most, taken as they are."
          error={mistake}
        >
          {(control) => (
            <textarea
              {...control}
              className="area"
              rows={Math.min(6, Math.max(2, ids.length + 1))}
              spellCheck={false}
              value={draft.text}
              onChange={({ target }) => put({ ...draft, text: target.value })}
            />
          )}
        </Field>
        <JsonSwitch isJson={draft.isJson} onChange={(isJson) => put({ ...draft, isJson })} />
        {type !== 'UNSUPPRESS' && ids.length > 0 && (
          <Foreseen
            // A changed request is asked anew.
            key={JSON.stringify(requestOf(draft))}
            draft={draft}
            onConfirm={(wanted) => put({ ...draft, confirm: wanted })}
            isConfirmed={confirm}
          />
        )}
        {isErasing(type) && <ErasingNotice count={ids.length} isAnonymous={isAnonymous} />}
      </div>
    </ConfirmDialog>
  );
}

function requestOf(draft: RegulationDraft) {
  const { type, of, confirm = false } = draft;
  const { ids } = subjectsOf(draft);
  const named = of === 'visitors' ? { anonymousIds: [...ids] } : { subjectIds: [...ids] };
  return { type, ...named, ...(confirm ? { confirm } : {}) };
}

/**
 * The users that it would affect, with what joined each id. It searches the stored events, so it runs on
 * request only.
 */
function Foreseen({
  draft,
  isConfirmed,
  onConfirm,
}: {
  readonly draft: RegulationDraft;
  readonly isConfirmed: boolean;
  readonly onConfirm: (wanted: boolean) => void;
}) {
  const { mutate, data, error, isPending } = useForesee();
  const leftOut = data === undefined ? 0 : leftOutIn(data.found);
  return (
    <>
      <Button isSmall disabled={isPending} onClick={() => mutate(requestOf(draft))}>
        Show whom it takes
      </Button>
      {error !== null && <Failure error={error} />}
      {data !== undefined && <SubjectsList subjects={data.found} />}
      {data !== undefined && isErasing(draft.type) && <p>{foreseenText(data)}</p>}
      {(leftOut > 0 || isConfirmed) && (
        <Check isChecked={isConfirmed} onChange={onConfirm}>
          also userIds that client sources alone have joined to these
        </Check>
      )}
    </>
  );
}

function ErasingNotice({ count, isAnonymous }: { readonly count: number; readonly isAnonymous: boolean }) {
  if (isAnonymous)
    return (
      <Notice tone="warn">
        Every stored event of {plural(count, 'visitor')} is erased, with what is owed of them and their
        profiles. Of an id that belongs to a user nothing is erased. No destination is told: a delete
        notification names a userId. This cannot be taken back; a receipt stays.
      </Notice>
    );
  return (
    <Notice tone="warn">
      Every stored event of {plural(count, 'user')} is erased, with what is owed of them, their dead letters,
      profiles and memberships. Every destination of their sources is told. This cannot be taken back; a
      receipt stays.
    </Notice>
  );
}
