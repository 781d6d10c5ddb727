"""The rest of a note, as data: sections that read like a real chart and say nothing of the risk.

Templates know three kinds of slot: ``{60..90}`` a whole or decimal number in that range,
``{mild|moderate}`` one of these, and the names that the writer of the note fills in (``{date}``,
``{Age}``, ``{sex}``, ``{He}`` ...). Nothing here may touch on heart failure, adherence, help at
home, wounds, kidneys, alcohol, gait or arrangements after discharge.
"""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip().splitlines())


COMPLAINTS = (
    "shortness of breath", "chest discomfort", "abdominal pain", "fever and cough", "weakness",
    "lightheadedness", "nausea and vomiting", "palpitations", "back pain", "lethargy",
    "flank discomfort", "headache", "diarrhea", "cough",
)  # fmt: skip

DIAGNOSES = (
    "PNEUMONIA", "CHEST PAIN", "SEPSIS", "GASTROINTESTINAL BLEED", "ABDOMINAL PAIN",
    "CORONARY ARTERY DISEASE", "ASTHMA;COPD EXACERBATION", "SYNCOPE", "URINARY TRACT INFECTION",
    "HYPOTENSION", "CHOLANGITIS", "PANCREATITIS", "STROKE;TELEMETRY", "HYPERGLYCEMIA",
)  # fmt: skip

ALLERGIES = (
    "No Known Allergies / Adverse Drug Reactions", "Penicillins",
    "Sulfa (Sulfonamide Antibiotics)", "Codeine", "Iodine; Iodine Containing",
    "Percocet / Morphine", "Aspirin", "Erythromycin Base", "Latex",
)  # fmt: skip

PROCEDURES = _lines("""
None
Upper endoscopy on [**{date}**]
Colonoscopy with polypectomy
Right internal jugular line placement
Arterial line placement
Bronchoscopy with lavage
Thoracentesis on [**{date}**]
Lumbar puncture
ERCP with sphincterotomy
Cardiac catheterization via the right radial artery
PICC line placement
Transesophageal echocardiogram
""")

PRESENTATION = _lines("""
{Mr} [**Known lastname {100..9999}**] is a {age} year old {man} with a history of {pmh} who \
presented to the emergency department with {complaint}.
This is a {age} year old {man} with {pmh}, referred by [**Hospital {1..60}**] for {complaint}.
{age} year old {man} with {pmh} who came in by ambulance with {complaint} of {2..9} days.
The patient is a {age} year old {man} with known {pmh}, now with {complaint} since [**{date}**].
""")

HPI = _lines("""
Symptoms began {2..12} days before and came on gradually.
The discomfort was rated {2..8} out of 10 and did not radiate.
There was mild nausea but no vomiting, and appetite was preserved.
No recent travel and no sick contacts were reported.
{He} was seen by a primary care doctor, Dr. [**Last Name (STitle) {100..9999}**], on [**{date}**].
In the ED initial vitals were T {97..99}.{0..9} HR {62..108} BP {104..158}/{54..92} RR {14..22} \
O2 sat {93..100}% on {room air|2 L nasal cannula}.
{He} was given {acetaminophen 1 g|ondansetron 4 mg IV|aspirin 325 mg|1 L of normal \
saline|ipratropium nebulizers} with some relief.
Electrocardiogram showed sinus rhythm at {62..98} with no ischemic changes.
A chest film was obtained and blood was sent.
{He} was admitted to the {medicine|step-down|intensive care} service for further management.
Review of systems was negative for hemoptysis, melena, dysuria and visual change.
No headache, sore throat, rash, joint pain or change in bowel habits.
""")

HISTORY = (
    "hypertension", "hyperlipidemia", "type 2 diabetes", "hypothyroidism", "osteoarthritis",
    "coronary artery disease", "COPD", "asthma", "GERD", "glaucoma", "migraine",
    "irritable bowel syndrome", "peripheral vascular disease", "prior stroke", "depression",
    "rheumatoid arthritis", "diverticulosis", "colonic polyps", "psoriasis", "cataracts",
    "prior deep vein thrombosis", "thyroid cancer in remission", "melanoma, resected",
    "hearing loss", "lumbar stenosis", "restless legs", "osteoporosis", "anxiety",
)  # fmt: skip

SURGERIES = _lines("""
Appendectomy
Cholecystectomy
Tonsillectomy
Inguinal hernia repair
Total knee replacement, {left|right}
Coronary bypass x{2..4}
Varicose vein stripping
Cataract surgery
Carpal tunnel release
Rotator cuff repair
Thyroidectomy
""")

SOCIAL = _lines("""
Retired {machinist|teacher|bus driver|bookkeeper|electrician|nurse|carpenter}.
Formerly worked as a {cook|clerk|welder|librarian|mechanic|postal worker}.
Smoked {10..50} pack-years, quit {3..30} years ago.
Never a smoker.
Smokes half a pack a day.
Born in [**Country {1..60}**].
Enjoys {gardening|chess|fishing|reading|crossword puzzles|baseball}.
Served in the [**Company {1..60}**].
Speaks English and {Spanish|Italian|Portuguese|Russian|Polish}.
""")

FAMILY = _lines("""
Father died of {myocardial infarction|lung cancer|stroke} at {54..88}.
Mother with {hypertension|type 2 diabetes|breast cancer|dementia}.
A sibling with {asthma|thyroid disease|colon cancer|psoriasis}.
No known inherited clotting or bleeding disorder.
Maternal aunt with lupus.
No early coronary disease.
""")

EXAM = _lines("""
VS: T {96..99}.{0..9} BP {98..158}/{50..94} HR {56..104} RR {12..22} O2 {92..100}% {RA|2L NC}
GEN: {Alert, comfortable|Pleasant, in no acute distress|Lying in bed, conversant}
HEENT: {Sclerae anicteric, MMM|PERRL, EOMI, oropharynx clear|Normocephalic, no pallor}
NECK: {Supple, no lymphadenopathy|No thyromegaly|Trachea midline, no bruits}
CV: {RRR, normal S1 and S2|Regular, {1..3}/6 systolic murmur at the base|Distant heart sounds}
CHEST: {Symmetric expansion|No chest wall tenderness|Equal breath sounds}
ABD: {Soft, nontender, nondistended, bowel sounds present|Obese, soft, no rebound|Mild epigastric \
tenderness, no guarding}
BACK: {No spinal or CVA tenderness|Mild paraspinal tenderness}
NEURO: {CN II-XII intact, strength 5/5|Oriented x3, speech fluent|Sensation intact to touch}
PSYCH: {Calm, appropriate|Mood good, affect full}
LYMPH: {No cervical or axillary nodes}
""")

LABS = _lines("""
WBC-{4..11}.{0..9} RBC-{3..4}.{10..99} Hgb-{9..14}.{0..9} Hct-{28..42}.{0..9} MCV-{80..98} \
MCH-{27..32}.{0..9} MCHC-{32..35}.{0..9} RDW-{12..16}.{0..9} Plt Ct-{140..390}
Glucose-{78..210} Na-{132..145} K-{3..4}.{5..9} Cl-{96..108} HCO3-{21..30} AnGap-{9..16}
PT-{11..15}.{0..9} PTT-{24..38}.{0..9} INR(PT)-1.{0..3}
ALT-{10..62} AST-{12..58} LD(LDH)-{140..280} AlkPhos-{48..130} TotBili-0.{2..9}
Calcium-{8..9}.{1..9} Phos-{2..4}.{1..9} Mg-{1..2}.{6..9}
Neuts-{52..84} Lymphs-{8..34} Monos-{3..9} Eos-{0..4}.{0..9} Baso-0.{1..8}
CK(CPK)-{40..190} CK-MB-{2..5} cTropnT-<0.01
TSH-{1..4}.{0..9} Free T4-1.{0..6}
Cholest-{120..230} Triglyc-{70..220} HDL-{34..70} LDLcalc-{60..150}
%HbA1c-{5..8}.{0..9} eAG-{105..200}
VitB12-{260..900} Folate-{8..19}.{0..9}
Lipase-{14..58} Albumin-{3..4}.{1..9}
Type-ART pO2-{68..110} pCO2-{34..46} pH-7.{36..44} calTCO2-{23..29} Base XS-{0..3}
URINE Color-Yellow Appear-Clear Sp [**Last Name (un) {100..9999}**]-1.0{10..24} Blood-NEG \
Nitrite-NEG Ketone-NEG pH-{5..7}.0 Leuks-NEG
""")

MEDICATIONS = _lines("""
Aspirin {81|325} mg PO DAILY
Atorvastatin {20|40|80} mg PO QHS
Lisinopril {2.5|5|10|20} mg PO DAILY
Metoprolol Tartrate {12.5|25|50} mg PO BID
Amlodipine {2.5|5|10} mg PO DAILY
Omeprazole {20|40} mg PO DAILY
Levothyroxine {25|50|88|112} mcg PO DAILY
Metformin {500|850|1000} mg PO BID
Furosemide {20|40} mg PO DAILY
Docusate Sodium 100 mg PO BID
Senna 8.6 mg PO BID:PRN
Acetaminophen {325|650} mg PO Q6H:PRN pain
Gabapentin {100|300} mg PO TID
Sertraline {25|50|100} mg PO DAILY
Albuterol {1..2} puffs INH Q4H:PRN wheezing
Fluticasone {110|220} mcg 2 puffs INH BID
Tiotropium 18 mcg INH DAILY
Insulin glargine {8..34} units SC QHS
Warfarin {1|2|2.5|5} mg PO DAILY
Clopidogrel 75 mg PO DAILY
Simvastatin {10|20} mg PO QHS
Loratadine 10 mg PO DAILY
Vitamin D3 {400|1000} units PO DAILY
Ferrous Sulfate 325 mg PO DAILY
Multivitamin 1 tablet PO DAILY
Calcium Carbonate 500 mg PO TID
Trazodone {25|50} mg QHS
Allopurinol {100|300} mg PO DAILY
Ranitidine 150 mg PO BID
Prednisone {5|10|20} mg PO DAILY
Latanoprost 0.005% 1 drop OU QHS
Hydrochlorothiazide {12.5|25} mg PO DAILY
Carvedilol {3.125|6.25|12.5} mg PO BID
Spironolactone {12.5|25} mg PO DAILY
Levetiracetam {500|750} mg PO BID
Apixaban {2.5|5} mg PO BID
""")

REPORTS = _lines("""
CHEST (PORTABLE AP): The cardiac silhouette is {normal in size|at the upper limit of \
normal|unchanged}. The aorta is {mildly tortuous|calcified at the arch}. No pneumothorax. {Linear \
atelectasis at the left base.|Old granuloma at the right apex.} Degenerative changes of the \
thoracic spine. IMPRESSION: {No acute process.|No change from [**{date}**].}
CT HEAD W/O CONTRAST: No hemorrhage, edema, mass effect or major vascular territory infarct. \
Ventricles and sulci are {normal for age|mildly prominent, in keeping with involution}. The \
mastoid air cells are clear. Mild mucosal thickening of the {ethmoid|maxillary} sinuses. \
IMPRESSION: No acute intracranial process.
CT ABDOMEN W/CONTRAST: The liver enhances evenly with a {4..14} mm cyst in segment {2..8}. The \
spleen measures {9..12}.{0..9} cm. The pancreas and adrenals are unremarkable. Scattered colonic \
diverticula without stranding. No free air. Atherosclerotic calcification of the aorta, maximal \
caliber {1..2}.{5..9} cm. IMPRESSION: No acute abdominal finding.
LIVER OR GALLBLADDER US: Normal echotexture of the liver. The common duct measures {3..6} mm. The \
main portal vein is patent with hepatopetal flow. The spleen is not enlarged. IMPRESSION: \
Unremarkable right upper quadrant.
CAROTID SERIES: Peak systolic velocities on the right are {58..110} cm/sec and on the left \
{56..112} cm/sec. Antegrade vertebral flow on both sides. IMPRESSION: Less than 40% stenosis on \
both sides.
UPPER ENDOSCOPY: Normal mucosa in the esophagus. {Small hiatal hernia.|Mild antral erythema, \
biopsied.|A {3..7} mm sessile polyp in the fundus.} Normal duodenum to the third part. \
Recommendations: continue proton pump inhibitor and await pathology.
THYROID U.S.: The right lobe measures {4..5}.{0..9} x {1..2}.{0..9} cm. A {3..9} mm spongiform \
nodule on the {left|right} is benign in appearance. No suspicious lymph node.
ECG: Sinus rhythm at {58..96}. {Left axis deviation.|Right bundle branch block.|Low limb lead \
voltage.|Nonspecific T wave flattening.} PR {138..198} QRS {84..118} QT/QTc \
{360..410}/{412..448}. Compared with the tracing of [**{date}**] no significant change.
MRI L-SPINE: Multilevel degenerative disease, most marked at L{3..4}-L5, with {mild|moderate} \
canal narrowing. The conus ends at L1. No cord signal abnormality, no marrow replacing lesion. \
IMPRESSION: Degenerative changes as above.
MICROBIOLOGY: MRSA SCREEN (Final [**{date}**]): No MRSA isolated. C. DIFFICILE TOXIN A & B TEST: \
Negative. RESPIRATORY VIRAL ANTIGEN SCREEN: Negative for adenovirus, influenza A and B, \
parainfluenza and RSV. LEGIONELLA URINARY ANTIGEN: Negative.
PATHOLOGY: {Gastric mucosa, biopsy: chronic inactive gastritis, no H. pylori.|Colon, polyp at \
{20..80} cm: tubular adenoma.|Skin, {left|right} arm: seborrheic keratosis.} Note: gross \
description, received in formalin, {2..6} fragments, the largest {2..8} mm.
""")

PROGRESS = _lines("""
Diet was advanced to {regular|cardiac|soft} and tolerated.
Slept well overnight.
Telemetry was uneventful and was discontinued.
Hematocrit was stable at {28..40}.{0..9}.
Oxygen was weaned from {3..4} L to {1..2} L.
Home inhalers were continued.
Physical therapy worked on transfers and stairs.
Peripheral line replaced in the {left|right} forearm.
Nutrition saw the patient and recommended {two|three} supplements a day.
Blood pressure ran {104..148}/{58..88}.
Finger sticks ran {98..190}.
Pain {1..5}/10, controlled with acetaminophen.
Subcutaneous heparin was given for prophylaxis.
The eye drops were continued for glaucoma.
Statin and aspirin were continued.
Thyroid replacement was continued at the home dose.
Nausea improved with ondansetron.
Influenza vaccine was given.
Bowel regimen was continued.
The Foley was removed and voiding was normal.
Speech and swallow evaluation: thin liquids, no restriction.
Magnesium and phosphate were repleted.
Electrolytes were checked daily.
Nasal saline and humidified air for dryness.
The arterial line was removed.
Cough settled with guaifenesin.
Code status was confirmed as {full code|DNR/DNI}.
Heart rate {60..98}, rhythm regular.
Interpreter used for rounds.
""")

INSTRUCTIONS = _lines("""
You were admitted to [**Hospital {1..60}**] with {complaint}.
It was a pleasure caring for you.
You had blood tests and imaging, which are listed above.
Please keep a list of your medicines with you.
Drink fluids with meals.
A low salt diet is advised for everybody with high blood pressure.
Do not drive while taking {oxycodone|lorazepam|codeine}.
Use sunscreen while on {doxycycline|amiodarone|hydrochlorothiazide}.
Bring this letter to your doctor.
Rinse your mouth after each steroid inhaler.
Call with questions at [**Telephone/Fax (1) {100..9999}**].
Rest between activities.
""")

CONDITIONS = _lines("""
Mental Status: Clear and coherent. Level of Consciousness: Alert and interactive.
Vital signs stable. Afebrile at the time of writing.
Stable.
Good.
Fair, eating a regular diet.
""")

NURSING = _lines("""
NEURO: {Alert and oriented x3|Sleepy but arousable|Follows commands}, PERRL {2..4} mm.
CV: HR {58..104} {NSR|sinus rhythm}, BP {96..152}/{48..86}, K {3..4}.{5..9}.
RESP: O2 sat {92..99}% on {room air|2 L NC|face tent}. Strong cough.
GI: {Tolerating clears|NPO for test|Regular diet, good appetite}, bowel sounds present.
GU: Foley draining clear yellow urine.
ID: WBC {6..11}.{0..9}.
ENDO: FS {96..188}.
ACCESS: {20|18} gauge {left|right} forearm.
SKIN: Warm and dry.
PLAN: {Monitor|Continue current care|Call out to floor in AM}.
""")

PHYSICIAN = _lines("""
Patient admitted from: ER.
24 Hour Events: {none|line placed|transferred from floor}.
Last dose of antibiotics: {none|[**{date}**]}.
Tmax {97..99}.{0..9}, HR {60..104}, BP {98..150}/{50..88}, RR {14..22}, SpO2 {92..99}%.
ICU consent: signed.
Prophylaxis: SQ heparin, {PPI|H2 blocker}.
Nutrition: {regular|NPO|clears}.
Lines: {20|18} gauge.
Communication: with the patient on rounds.
Code status: full code.
""")
