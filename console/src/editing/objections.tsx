import { isOvertaken } from '../api/records.ts';
import { Failure, Notice } from '../ui/empty-state.tsx';
import { otherFaults } from './faults.ts';
import type { Submission } from './use-submission.ts';

interface ObjectionsProps extends Pick<Submission, 'failure' | 'faults'> {
  /** Parts of the record whose mistakes stand beside a field. */
  readonly shown: readonly string[];
}

/** Shows why nothing was saved, as far as no field of the form shows it. */
export function Objections({ failure, faults, shown }: ObjectionsProps) {
  if (failure === undefined) return null;
  if (isOvertaken(failure))
    return (
      <Failure
        error={new Error('Nothing was saved. What somebody else has changed stands above the form.')}
      />
    );
  if (faults.length === 0) return <Failure error={failure} />;
  return (
    <Notice tone="bad">
      <p role="alert">
        Nothing was saved: {faults.length === 1 ? 'one field is' : `${faults.length} fields are`} wrong.
      </p>
      {otherFaults(faults, shown).map(({ path, message }) => (
        <p key={path}>
          <span className="mono">{path.replace(/^body\./, '')}</span> {message}
        </p>
      ))}
    </Notice>
  );
}
